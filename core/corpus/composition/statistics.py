"""Reductions and normalisations as tables: what is gathered over a row, and what becomes of it.

Sums, means, extremes, log-sum-exp, variances and norms, as softmax and the normalisations, are a few passes over the
same elements, so each is a record; how the elements lie in memory decides the loop, which is written once for all.
A row's elements lie side by side (`loop`), at a stride (a program takes neighbouring rows, `strip` one element of each
at a time and `tile` several), or in several pieces (`spread`, as a batch norm's; `spread inside` where other dimensions
come first).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

BLOCK = "tl.arange(0, BLOCK)"
_START = {
    "sum": "tl.zeros((BLOCK,), dtype=tl.float32)",
    "max": 'tl.full((BLOCK,), -float("inf"), dtype=tl.float32)',
    "min": 'tl.full((BLOCK,), float("inf"), dtype=tl.float32)',
    "prod": "tl.full((BLOCK,), 1.0, dtype=tl.float32)",
}
_GATHER = {
    "sum": "{s} += {t}",
    "max": "{s} = tl.maximum({s}, {t})",
    "min": "{s} = tl.minimum({s}, {t})",
    "prod": "{s} = {s} * {t}",
}
_OTHER = {"sum": "0.0", "max": '-float("inf")', "min": 'float("inf")', "prod": "1.0"}


@frozen(kw_only=True)
class Statistic:
    """One pass: `term` of each element `x` is gathered, and `finish` makes of `{s}` what later passes call `name`."""

    name: str
    gather: str = "sum"
    term: str = "x"
    finish: str = "{s}"
    load: str = ""
    """A line before it that loads what the term is of besides `x`, in a kernel of tiles."""
    is_guarded: bool = False
    """Whether the term of what lies beyond the row is not zero."""


@frozen(kw_only=True)
class RowFunction:
    """The passes, and for a normalisation the value of each element; a reduction's last pass is called `acc`."""

    passes: tuple[Statistic, ...]
    value: str = ""

    @property
    def other(self) -> str:
        """Return what stands for elements beyond the row."""
        return _OTHER[self.passes[0].gather]

    @property
    def is_map(self) -> bool:
        return bool(self.value)


_TOP = Statistic(name="top", gather="max")
_MEAN = Statistic(name="mean", finish="{s} / R")
_SQUARES = "(x - mean) * (x - mean)"


def _reduction(term: str = "x", finish: str = "{s}", gather: str = "sum", *before: Statistic) -> RowFunction:
    last = Statistic(name="acc", gather=gather, term=term, finish=finish, is_guarded=term == _SQUARES)
    return RowFunction(passes=(*before, last))


REDUCTIONS: dict[str, RowFunction] = {
    "sum": _reduction(),
    "mean": _reduction(finish="{s} / R"),
    "max": _reduction(gather="max"),
    "min": _reduction(gather="min"),
    "prod": _reduction(gather="prod"),
    "logsumexp": _reduction("tl.exp(x - top)", "top + tl.log({s})", "sum", _TOP),
    "var": _reduction(_SQUARES, "{s} / (R - 1)", "sum", _MEAN),
    "std": _reduction(_SQUARES, "tl.sqrt({s} / (R - 1))", "sum", _MEAN),
    "l1": _reduction("tl.abs(x)"),
    "l2": _reduction("x * x", "tl.sqrt({s})"),
}

_VECTOR = "v = tl.load(v_ptr + offs // M * R + start + rows, mask=(start + rows < R) & (offs < num), other=0.0)"
DOT = RowFunction(passes=(Statistic(name="acc", term="x * v", load=_VECTOR),))
_OTHER_ROW = _VECTOR.replace("offs // M * R + start + rows", "first + (start + rows) * B")
_DIFFERENCE = "(x - v) * (x - v)"


def _pair(term: str, finish: str = "{s}", *before: Statistic) -> RowFunction:
    return RowFunction(passes=(*before, Statistic(name="acc", term=term, load=_OTHER_ROW, finish=finish)))


_NORMS = (Statistic(name="xx", term="x * x"), Statistic(name="vv", term="v * v", load=_OTHER_ROW))
PAIRS: dict[str, RowFunction] = {
    "squared_distance": _pair(_DIFFERENCE),
    "l2_distance": _pair(_DIFFERENCE, "tl.sqrt({s})"),
    "l1_distance": _pair("tl.abs(x - v)"),
    "cosine": _pair("x * v", "{s} / (tl.maximum(tl.sqrt(xx), 1e-8) * tl.maximum(tl.sqrt(vv), 1e-8))", *_NORMS),
}
"""What is made of two rows."""

MAPS: dict[str, RowFunction] = {
    "softmax": RowFunction(
        passes=(_TOP, Statistic(name="total", term="tl.exp(x - top)")), value="tl.exp(x - top) / total"
    ),
    "log_softmax": RowFunction(
        passes=(_TOP, Statistic(name="total", term="tl.exp(x - top)", finish="tl.log({s})")),
        value="x - top - total",
    ),
    "standardize": RowFunction(
        passes=(_MEAN, Statistic(name="var", term=_SQUARES, finish="{s} / R", is_guarded=True)),
        value="(x - mean) / tl.sqrt(var + EPS)",
    ),
    "rms": RowFunction(passes=(Statistic(name="ms", term="x * x", finish="{s} / R"),), value="x / tl.sqrt(ms + EPS)"),
    "l2_normalize": RowFunction(
        passes=(Statistic(name="norm", term="x * x", finish="tl.maximum(tl.sqrt({s}), 1e-12)"),), value="x / norm"
    ),
    "l1_normalize": RowFunction(
        passes=(Statistic(name="norm", term="tl.abs(x)", finish="tl.maximum({s}, 1e-12)"),), value="x / norm"
    ),
}

Finish = Callable[[], Sequence[str]]
_ADDRESSES = {
    "loop": "row * R + cols",
    "spread": "(cols // P * B + row) * P + cols % P",
    "spread inside": "((row // B * Q + cols // P) * B + row % B) * P + cols % P",
}


def walk(function: RowFunction, layout: str, finish: Finish) -> list[str]:
    """Write a kernel's body; `finish` writes what follows on `acc`, up to the store."""
    if layout == "tile":
        return _walk_tiles(function, finish)
    return _walk_strips(function, finish) if layout == "strip" else _walk_rows(function, _ADDRESSES[layout], finish)


def _gather(function: RowFunction, start: str, loop: Sequence[str], load: str, inside: str) -> list[str]:
    """Write a loop for each pass; `start` is the shape of what is gathered, `load` a place and what masks it."""
    lines = []
    for step in function.passes:
        other = function.other if step.gather == "sum" else _OTHER[step.gather]
        term = f"tl.where({inside}, {step.term}, 0.0)" if step.is_guarded else step.term
        lines += [
            f"part = {_START[step.gather].replace('(BLOCK,)', start)}",
            *loop,
            f"    x = tl.load(x_ptr + {load}, other={other})",
            *([f"    {step.load}"] if step.load else []),
            "    " + _GATHER[step.gather].format(s="part", t=term),
            f"{step.name} = {step.finish.format(s=f'tl.{step.gather}(part, axis=0)')}",
        ]
    return lines


def _map(function: RowFunction, loop: Sequence[str], finish: Finish) -> list[str]:
    """Write the loop over a normalisation's elements."""
    load = "    x = tl.load(x_ptr + offs, mask=mask, other=0.0)"
    return [*loop, load, f"    acc = {function.value}", *("    " + line for line in finish())]


def _walk_rows(function: RowFunction, address: str, finish: Finish) -> list[str]:
    loop = ["for start in range(0, R, BLOCK):", f"    cols = start + {BLOCK}"]
    lines = ["row = tl.program_id(0)"]
    lines += _gather(function, "(BLOCK,)", loop, f"{address}, mask=cols < R", "cols < R")
    if not function.is_map:
        return [*lines, *finish()]
    return [*lines, *_map(function, [*loop, "    mask = cols < R", f"    offs = {address}"], finish)]


def _walk_tiles(function: RowFunction, finish: Finish) -> list[str]:
    place = "pos" if function.is_map else "offs"
    lines = [
        f"{place} = tl.program_id(0) * BLOCK + {BLOCK}",
        f"first = {place} // B * R * B + {place} % B",
        "rows = tl.arange(0, ROWS)[:, None]",
    ]
    loop, inside = "for start in range(0, R, ROWS):", "start + rows < R"
    load = f"first + (start + rows) * B, mask=({inside}) & ({place} < num)"
    lines += _gather(function, "(ROWS, BLOCK)", [loop], load, inside)
    if not function.is_map:
        return [*lines, f"mask = {place} < num", *finish()]
    found = ["    r = start + rows", "    offs = first + r * B", f"    mask = (r < R) & ({place} < num)"]
    return [*lines, *_map(function, [loop, *found], finish)]


def _walk_strips(function: RowFunction, finish: Finish) -> list[str]:
    """Write a reduction of one element of each row at a time."""
    lines = [f"offs = tl.program_id(0) * BLOCK + {BLOCK}", "mask = offs < num", "first = offs // B * R * B + offs % B"]
    for step in function.passes:
        name = step.name if step.finish == "{s}" else "part"
        lines += [
            f"{name} = {_START[step.gather]}",
            "for r in range(R):",
            "    x = tl.load(x_ptr + first + r * B, mask=mask, other=0.0)",
            "    " + _GATHER[step.gather].format(s=name, t=step.term),
        ]
        if name != step.name:
            lines.append(f"{step.name} = {step.finish.format(s=name)}")
    return [*lines, *finish()]
