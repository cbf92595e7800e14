"""Reductions and normalisations as tables: what is gathered over a row, and what becomes of it.

Sums, means, extremes, log-sum-exp, variances and norms, as softmax and the normalisations, are a few passes over the
same elements, so each is a record; how the elements lie in memory decides the loop, which is written once for all.
A row's elements lie side by side (`loop`), at a stride (a program takes
neighbouring rows, `strip` one element of each at a time and `tile` several), or in several pieces (`spread`, as a batch
norm's; `spread inside` where other dimensions come first).
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
    "sum_squares": _reduction("x * x"),
    "mean_abs": _reduction("tl.abs(x)", "{s} / R"),
}

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
    "frobenius": RowFunction(passes=(Statistic(name="norm", term="x * x", finish="tl.sqrt({s})"),), value="x / norm"),
}

Finish = Callable[[], Sequence[str]]


def walk(function: RowFunction, layout: str, finish: Finish) -> list[str]:
    """Write a kernel's body; `finish` writes what follows on `acc`, up to the store."""
    match layout:
        case "loop":
            return _walk_rows(function, "row * R + cols", finish)
        case "spread":
            return _walk_rows(function, "(cols // P * B + row) * P + cols % P", finish)
        case "spread inside":
            first = "((row // B * Q + cols // P) * B + row % B) * P"
            return _walk_rows(function, f"{first} + cols % P", finish)
        case "tile":
            return _walk_tiles(function, finish)
        case _:
            return _walk_strips(function, finish)


def _walk_rows(function: RowFunction, address: str, finish: Finish) -> list[str]:
    lines = ["row = tl.program_id(0)"]
    loop = ["for start in range(0, R, BLOCK):", f"    cols = start + {BLOCK}"]
    for step in function.passes:
        other = function.other if step.gather == "sum" else _OTHER[step.gather]
        term = f"tl.where(cols < R, {step.term}, 0.0)" if step.is_guarded else step.term
        lines += [
            f"part = {_START[step.gather]}",
            *loop,
            f"    x = tl.load(x_ptr + {address}, mask=cols < R, other={other})",
            "    " + _GATHER[step.gather].format(s="part", t=term),
            f"{step.name} = {step.finish.format(s=f'tl.{step.gather}(part, axis=0)')}",
        ]
    if not function.is_map:
        return [*lines, *finish()]
    return [
        *lines,
        *loop,
        "    mask = cols < R",
        f"    offs = {address}",
        "    x = tl.load(x_ptr + offs, mask=mask, other=0.0)",
        f"    acc = {function.value}",
        *("    " + line for line in finish()),
    ]


def _walk_tiles(function: RowFunction, finish: Finish) -> list[str]:
    place = "pos" if function.is_map else "offs"
    lines = [
        f"{place} = tl.program_id(0) * BLOCK + {BLOCK}",
        f"first = {place} // B * R * B + {place} % B",
        "rows = tl.arange(0, ROWS)[:, None]",
    ]
    for step in function.passes:
        start = _START[step.gather].replace("(BLOCK,)", "(ROWS, BLOCK)")
        other = function.other if step.gather == "sum" else _OTHER[step.gather]
        inside = f"(start + rows < R) & ({place} < num)"
        term = f"tl.where(start + rows < R, {step.term}, 0.0)" if step.is_guarded else step.term
        lines += [
            f"part = {start}",
            "for start in range(0, R, ROWS):",
            f"    x = tl.load(x_ptr + first + (start + rows) * B, mask={inside}, other={other})",
            "    " + _GATHER[step.gather].format(s="part", t=term),
            f"{step.name} = {step.finish.format(s=f'tl.{step.gather}(part, axis=0)')}",
        ]
    if not function.is_map:
        return [*lines, f"mask = {place} < num", *finish()]
    return [
        *lines,
        "for start in range(0, R, ROWS):",
        "    r = start + rows",
        "    offs = first + r * B",
        f"    mask = (r < R) & ({place} < num)",
        "    x = tl.load(x_ptr + offs, mask=mask, other=0.0)",
        f"    acc = {function.value}",
        *("    " + line for line in finish()),
    ]


def _walk_strips(function: RowFunction, finish: Finish) -> list[str]:
    place = "pos" if function.is_map else "offs"
    lines = [
        f"{place} = tl.program_id(0) * BLOCK + {BLOCK}",
        f"mask = {place} < num",
        f"first = {place} // B * R * B + {place} % B",
    ]
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
    if not function.is_map:
        return [*lines, *finish()]
    return [
        *lines,
        "for r in range(R):",
        "    offs = first + r * B",
        "    x = tl.load(x_ptr + offs, mask=mask, other=0.0)",
        f"    acc = {function.value}",
        *("    " + line for line in finish()),
    ]
