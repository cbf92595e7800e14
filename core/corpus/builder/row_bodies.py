"""Kernel bodies of the row families, each written once for the three styles (row, tile, loop).

`row` and `tile` hold whole rows, so they differ in their axis and in how a value a row is broadcast; `loop` keeps
running values in a block and passes over the columns as often as the mathematics asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from .spec import Spec
from .wording import Names

_INFINITY = 'float("inf")'


@frozen(kw_only=True)
class RowBody:
    """The names and style of one kernel; its methods write the lines that all producers share."""

    spec: Spec
    names: Names
    style: str
    n: str
    rows: str

    @property
    def x(self) -> str:
        return self.names.x

    @property
    def value(self) -> str:
        return self.names.value

    @property
    def columns(self) -> str:
        return self.names.columns

    @property
    def offsets(self) -> str:
        return self.names.offsets

    @property
    def block(self) -> str:
        return self.names.block

    @property
    def pointer(self) -> str:
        return self.names.ptr(self.x)

    @property
    def cast(self) -> str:
        return self.spec.cast

    @property
    def eps(self) -> str:
        return repr(self.spec.option("eps"))

    @property
    def along(self) -> str:
        """Return the arguments that make a reduction give a value a row, ready to broadcast over its columns."""
        return "axis=1, keep_dims=True" if self.style == "tile" else "axis=0"

    @property
    def mask(self) -> str:
        return f"{self.columns} < {self.n}" if self.style == "loop" else "mask"

    @property
    def place(self) -> str:
        return f"row * {self.n} + {self.columns}" if self.style == "loop" else self.offsets

    def load(self, pointer: str, other: str = "") -> str:
        """Write a load of elements at the current offsets."""
        fallback = f", other={other}" if other else ""
        return f"tl.load({pointer} + {self.place}, mask={self.mask}{fallback}){self.cast}"

    def load_vector(self, pointer: str) -> str:
        """Write a load of one value a column."""
        mask = "mask" if self.style == "row" else f"{self.columns} < {self.n}"
        return f"tl.load({pointer} + {self.columns}, mask={mask}){self.cast}"

    def load_result(self, pointer: str) -> str:
        """Write a load of one value a row."""
        if self.style == "tile":
            return f"tl.load({pointer} + rows, mask=rows < {self.rows}){self.cast}"
        return f"tl.load({pointer} + row){self.cast}"

    def whole(self, other: str) -> list[str]:
        """Write lines that load whole rows."""
        columns, n, offsets = self.columns, self.n, self.offsets
        if self.style == "tile":
            return [
                "rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]",
                f"{columns} = tl.arange(0, {self.block})[None, :]",
                f"mask = (rows < {self.rows}) & ({columns} < {n})",
                f"{offsets} = rows * {n} + {columns}",
                f"{self.x} = {self.load(self.pointer, other)}",
            ]
        return [
            "row = tl.program_id(0)",
            f"{columns} = tl.arange(0, {self.block})",
            f"mask = {columns} < {n}",
            f"{offsets} = row * {n} + {columns}",
            f"{self.x} = {self.load(self.pointer, other)}",
        ]

    def sweep(self, other: str, lines: Sequence[str]) -> list[str]:
        """Write a loop over the blocks of a row's columns."""
        return [
            f"for start in range(0, {self.n}, {self.block}):",
            f"    {self.columns} = start + tl.arange(0, {self.block})",
            f"    {self.x} = {self.load(self.pointer, other)}",
            *(f"    {line}" for line in lines),
        ]

    def zeros(self, name: str) -> str:
        return f"{name} = tl.zeros(({self.block},), dtype=tl.float32)"

    def full(self, name: str, value: str) -> str:
        return f"{name} = tl.full(({self.block},), {value}, dtype=tl.float32)"

    def finish_reduction(self, steps: Sequence[str], pointer: str) -> list[str]:
        """Write the chain on a value a row, and its store."""
        if self.style == "tile":
            return [*steps, f"tl.store({pointer} + rows, {self.value}, mask=rows < {self.rows})"]
        return [*steps, f"tl.store({pointer} + row, {self.value})"]

    def finish_map(self, steps: Sequence[str], pointer: str) -> list[str]:
        """Write the chain on a value an element, and its store; inside the last sweep where there is one."""
        indent = "    " if self.style == "loop" else ""
        lines = [*steps, f"tl.store({pointer} + {self.place}, {self.value}, mask={self.mask})"]
        return [f"{indent}{line}" for line in lines]


def _fold(other: str, element: str, whole: str, combine: str, last: str = "{v}") -> Callable[[RowBody], list[str]]:
    """Return a reduction from its parts: what an element adds, how a block is reduced, how blocks combine."""

    def write(body: RowBody) -> list[str]:
        x, v = body.x, body.value
        item = element.format(x=x)
        if body.style != "loop":
            value = last.format(v=whole.format(x=item, along=body.along), n=body.n)
            return [*body.whole(other), f"{v} = {value}"]
        start = body.zeros("acc") if other == "0.0" else body.full("acc", other)
        value = last.format(v=whole.format(x="acc", along="axis=0"), n=body.n)
        return ["row = tl.program_id(0)", start, *body.sweep(other, [combine.format(x=item)]), f"{v} = {value}"]

    return write


def _extreme_index(function: str, other: str, compare: str) -> Callable[[RowBody], list[str]]:
    def write(body: RowBody) -> list[str]:
        if body.style != "loop":
            return [*body.whole(other), f"{body.value} = tl.{function}({body.x}, {body.along})"]
        inner = [
            f"better = {body.x} {compare} best",
            f"best = tl.where(better, {body.x}, best)",
            f"where = tl.where(better, {body.columns}, where)",
        ]
        extreme = "max" if function == "argmax" else "min"
        return [
            "row = tl.program_id(0)",
            body.full("best", other),
            f"where = tl.zeros(({body.block},), dtype=tl.int32)",
            *body.sweep(other, inner),
            f"top = tl.{extreme}(best, axis=0)",
            f"{body.value} = tl.min(tl.where(best == top, where, {body.n}), axis=0)",
        ]

    return write


def _shifted_sum(body: RowBody) -> list[str]:
    """Write lines up to the row's maximum `top` and the sum `total` of exponentials."""
    low, x = f"-{_INFINITY}", body.x
    if body.style != "loop":
        return [*body.whole(low), f"top = tl.max({x}, {body.along})"]
    return [
        "row = tl.program_id(0)",
        body.full("high", low),
        *body.sweep(low, [f"high = tl.maximum(high, {x})"]),
        "top = tl.max(high, axis=0)",
        body.zeros("acc"),
        *body.sweep(low, [f"acc += tl.exp({x} - top)"]),
        "total = tl.sum(acc, axis=0)",
    ]


def _logsumexp(body: RowBody) -> list[str]:
    lines = _shifted_sum(body)
    if body.style != "loop":
        lines.append(f"total = tl.sum(tl.exp({body.x} - top), {body.along})")
    return [*lines, f"{body.value} = top + tl.log(total)"]


def _softmax(body: RowBody) -> list[str]:
    x, v, low = body.x, body.value, f"-{_INFINITY}"
    if body.style == "loop":
        return [*_shifted_sum(body), *body.sweep(low, [f"{v} = tl.exp({x} - top) / total"])]
    return [
        *_shifted_sum(body),
        f"{v} = tl.exp({x} - top)",
        f"{v} = {v} / tl.sum({v}, {body.along})",
    ]


def _log_softmax(body: RowBody) -> list[str]:
    x, v, low = body.x, body.value, f"-{_INFINITY}"
    if body.style == "loop":
        return [*_shifted_sum(body), "shift = top + tl.log(total)", *body.sweep(low, [f"{v} = {x} - shift"])]
    return [
        *_shifted_sum(body),
        f"{x} = {x} - top",
        f"total = tl.sum(tl.exp({x}), {body.along})",
        f"{v} = {x} - tl.log(total)",
    ]


def _weigh(body: RowBody, has_bias: bool) -> list[str]:
    if not body.spec.option("affine"):
        return []
    weight, beta = body.names.ptr("weight"), body.names.ptr("beta")
    bias = f" + {body.load_vector(beta)}" if has_bias else ""
    return [f"{body.value} = {body.value} * {body.load_vector(weight)}{bias}"]


def _layer_norm(body: RowBody) -> list[str]:
    x, v, n, along = body.x, body.value, body.n, body.along
    weigh = _weigh(body, True)
    if body.style == "loop":
        return [
            "row = tl.program_id(0)",
            body.zeros("acc"),
            *body.sweep("0.0", [f"acc += {x}"]),
            f"mean = tl.sum(acc, axis=0) / {n}",
            body.zeros("acc"),
            *body.sweep("0.0", [f"d = tl.where({body.mask}, {x} - mean, 0.0)", "acc += d * d"]),
            f"var = tl.sum(acc, axis=0) / {n}",
            *body.sweep("0.0", [f"{v} = ({x} - mean) / tl.sqrt(var + {body.eps})", *weigh]),
        ]
    return [
        *body.whole("0.0"),
        f"mean = tl.sum({x}, {along}) / {n}",
        f"d = tl.where(mask, {x} - mean, 0.0)",
        f"var = tl.sum(d * d, {along}) / {n}",
        f"{v} = d / tl.sqrt(var + {body.eps})",
        *weigh,
    ]


def _rms_norm(body: RowBody) -> list[str]:
    x, v, n = body.x, body.value, body.n
    weigh = _weigh(body, False)
    if body.style == "loop":
        return [
            "row = tl.program_id(0)",
            body.zeros("acc"),
            *body.sweep("0.0", [f"acc += {x} * {x}"]),
            f"rms = tl.sqrt(tl.sum(acc, axis=0) / {n} + {body.eps})",
            *body.sweep("0.0", [f"{v} = {x} / rms", *weigh]),
        ]
    return [
        *body.whole("0.0"),
        f"rms = tl.sqrt(tl.sum({x} * {x}, {body.along}) / {n} + {body.eps})",
        f"{v} = {x} / rms",
        *weigh,
    ]


_SUM = "tl.sum({x}, {along})"
_ADD = "acc += {x}"

REDUCTIONS: dict[str, Callable[[RowBody], list[str]]] = {
    "sum": _fold("0.0", "{x}", _SUM, _ADD),
    "mean": _fold("0.0", "{x}", _SUM, _ADD, "{v} / {n}"),
    "max": _fold(f"-{_INFINITY}", "{x}", "tl.max({x}, {along})", "acc = tl.maximum(acc, {x})"),
    "min": _fold(_INFINITY, "{x}", "tl.min({x}, {along})", "acc = tl.minimum(acc, {x})"),
    "l2norm": _fold("0.0", "{x} * {x}", _SUM, _ADD, "tl.sqrt({v})"),
    "sum_squares": _fold("0.0", "{x} * {x}", _SUM, _ADD),
    "mean_squares": _fold("0.0", "{x} * {x}", _SUM, _ADD, "{v} / {n}"),
    "logsumexp": _logsumexp,
    "argmax": _extreme_index("argmax", f"-{_INFINITY}", ">"),
    "argmin": _extreme_index("argmin", _INFINITY, "<"),
}
"""Producers of one value a row."""

MAPS: dict[str, Callable[[RowBody], list[str]]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
}
"""Producers of one value an element."""
