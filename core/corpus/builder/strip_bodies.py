"""Kernel bodies that work along a dimension which others follow: a program takes a strip of neighbouring lanes.

A tensor is seen as (outer, n, inner) and the work goes along n. The row families' bodies are written by the methods of
`RowBody`, so a strip only overrides how elements are found and along which axis a tile is reduced; `walk` takes one
place after the other and keeps a running value a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from .row_bodies import REDUCTIONS, Fold, RowBody

_START = "row = tl.program_id(0)"
_INFINITY = 'float("inf")'


@frozen(kw_only=True)
class StripBody(RowBody):
    """The names and style of one kernel: `row` holds whole columns in a tile, `loop` passes over them, `walk` walks."""

    lane: str
    lanes: str
    """How many lanes a program takes."""
    inner: str
    has_outer: bool

    @property
    def along(self) -> str:
        return "axis=0, keep_dims=True"

    @property
    def mask(self) -> str:
        if self.style == "row":
            return "mask"
        inside = f"{self.lane} < {self.inner}"
        return inside if self.style == "walk" else f"({self.names.columns} < {self.n}) & ({inside})"

    @property
    def place(self) -> str:
        return self.names.offsets

    @property
    def start(self) -> list[str]:
        """Write lines that say which strip a program takes."""
        axis = "" if self.style == "walk" else "[None, :]"
        lane = f"{self.lane} = tl.program_id({int(self.has_outer)}) * {self.lanes} + tl.arange(0, {self.lanes}){axis}"
        return [_START, lane] if self.has_outer else [lane]

    @property
    def locate(self) -> str:
        """Write the line that finds the elements."""
        column = f"(row * {self.n} + {self.names.columns})" if self.has_outer else self.names.columns
        return f"{self.names.offsets} = {column} * {self.inner} + {self.lane}"

    def whole(self, other: str) -> list[str]:
        """Write lines that load whole columns."""
        return [
            *self.start,
            f"{self.names.columns} = tl.arange(0, {self.names.block})[:, None]",
            f"mask = ({self.names.columns} < {self.n}) & ({self.lane} < {self.inner})",
            self.locate,
            self.load_x(other),
        ]

    def sweep(self, other: str, lines: Sequence[str]) -> list[str]:
        """Write a loop over blocks of places."""
        return [
            f"for start in range(0, {self.n}, {self.names.block}):",
            f"    {self.names.columns} = start + tl.arange(0, {self.names.block})[:, None]",
            f"    {self.locate}",
            f"    {self.load_x(other)}",
            *(f"    {line}" for line in lines),
        ]

    def walk(self, lines: Sequence[str]) -> list[str]:
        """Write a loop over single places."""
        return [
            f"for {self.names.columns} in range({self.n}):",
            f"    {self.locate}",
            f"    {self.names.x} = {self.load(self.names.ptr(self.names.x))}",
            *(f"    {line}" for line in lines),
        ]

    def lane_full(self, name: str, value: str) -> str:
        """Write a running value a lane."""
        if value == "0.0":
            return f"{name} = tl.zeros(({self.lanes},), dtype=tl.float32)"
        return f"{name} = tl.full(({self.lanes},), {value}, dtype=tl.float32)"

    def finish_reduction(self, steps: Sequence[str], pointer: str) -> list[str]:
        """Write the store of a value a lane."""
        place = f"row * {self.inner} + {self.lane}" if self.has_outer else self.lane
        return [*steps, f"tl.store({pointer} + {place}, {self.names.value}, mask={self.lane} < {self.inner})"]


def write_strip(write: Callable[[RowBody], list[str]], body: StripBody) -> list[str]:
    """Write a row family's body along another dimension: its running values become tiles, reduced along axis 0."""
    lines = []
    for line in write(body):
        if line == _START and body.style == "loop":
            lines += body.start
            continue
        line = line.replace(f"(({body.names.block},),", f"(({body.names.block}, {body.lanes}),")
        lines.append(line.replace("axis=0)", "axis=0, keep_dims=True)"))
    return lines


def can_walk(producer: str) -> bool:
    """Return whether a reduction can be walked."""
    return producer in ("argmax", "argmin") or isinstance(REDUCTIONS.get(producer), Fold)


def write_walk(producer: str, body: StripBody) -> list[str]:
    """Write a reduction that takes one place after the other."""
    fold = REDUCTIONS[producer]
    if isinstance(fold, Fold):
        step = fold.combine.format(x=fold.element.format(x=body.names.x))
        lines = [*body.start, body.lane_full("acc", fold.other), *body.walk([step])]
        return [*lines, f"{body.names.value} = {fold.last.format(v='acc', n=body.n)}"]
    start, compare = (f"-{_INFINITY}", ">") if producer == "argmax" else (_INFINITY, "<")
    return [
        *body.start,
        body.lane_full("best", start),
        f"{body.names.value} = tl.zeros(({body.lanes},), dtype=tl.int32)",
        *body.walk(
            [
                f"better = {body.names.x} {compare} best",
                f"best = tl.where(better, {body.names.x}, best)",
                f"{body.names.value} = tl.where(better, {body.names.columns}, {body.names.value})",
            ]
        ),
    ]


def spread_lanes(x: str, dim: int, rank: int, lengths: tuple[str, str, str], width: int) -> tuple[list[str], str]:
    """Write the host's lines for `lengths` (n, inner, outer) along `dim`, and the grid for `width` lanes a program."""
    n, inner, outer = lengths
    after = " * ".join(f"<{x}>.shape[{at}]" for at in range(dim + 1, rank))
    lines, programs = [f"{n} = <{x}>.shape[{dim}]", f"{inner} = {after}"], f"triton.cdiv({inner}, {width})"
    if not dim:
        return lines, f"({programs},)"
    lines.append(f"{outer} = " + " * ".join(f"<{x}>.shape[{at}]" for at in range(dim)))
    return lines, f"({outer}, {programs})"
