"""Kernel bodies of the row families, each written once for the three styles (row, tile, loop).

`row` and `tile` hold whole rows, so they differ in their axis and in how a value a row is broadcast; `loop` keeps
running values in a block and passes over the columns as often as the mathematics asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from .operations import Operand
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
    def eps(self) -> str:
        return repr(self.spec.option("eps"))

    @property
    def along(self) -> str:
        """Return the arguments that make a reduction give a value a row, ready to broadcast over its columns."""
        return "axis=1, keep_dims=True" if self.style == "tile" else "axis=0"

    @property
    def mask(self) -> str:
        return f"{self.names.columns} < {self.n}" if self.style == "loop" else "mask"

    @property
    def place(self) -> str:
        return f"row * {self.n} + {self.names.columns}" if self.style == "loop" else self.names.offsets

    def load(self, pointer: str, other: str = "") -> str:
        """Write a load of elements at the current offsets."""
        fallback = f", other={other}" if other else ""
        return f"tl.load({pointer} + {self.place}, mask={self.mask}{fallback}){self.spec.cast}"

    def load_vector(self, pointer: str) -> str:
        """Write a load of one value a column."""
        mask = "mask" if self.style == "row" else f"{self.names.columns} < {self.n}"
        return f"tl.load({pointer} + {self.names.columns}, mask={mask}){self.spec.cast}"

    def load_result(self, pointer: str) -> str:
        """Write a load of one value a row."""
        if self.style == "tile":
            return f"tl.load({pointer} + rows, mask=rows < {self.rows}){self.spec.cast}"
        return f"tl.load({pointer} + row){self.spec.cast}"

    def load_operand(self, operand: str, kind: Operand) -> str:
        """Write a load of what a chain reads after a producer of one value an element."""
        pointer = self.names.ptr(operand)
        return self.load_vector(pointer) if kind is Operand.VECTOR else self.load(pointer)

    def load_x(self, other: str) -> str:
        """Write the load of the elements that the producer works on, and `other` where there are none."""
        return f"{self.names.x} = {self.load(self.names.ptr(self.names.x), other)}"

    def whole(self, other: str) -> list[str]:
        """Write lines that load whole rows."""
        columns, n, offsets = self.names.columns, self.n, self.names.offsets
        if self.style == "tile":
            return [
                "rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]",
                f"{columns} = tl.arange(0, {self.names.block})[None, :]",
                f"mask = (rows < {self.rows}) & ({columns} < {n})",
                f"{offsets} = rows * {n} + {columns}",
                self.load_x(other),
            ]
        return [
            "row = tl.program_id(0)",
            f"{columns} = tl.arange(0, {self.names.block})",
            f"mask = {columns} < {n}",
            f"{offsets} = row * {n} + {columns}",
            self.load_x(other),
        ]

    def sweep(self, other: str, lines: Sequence[str]) -> list[str]:
        """Write a loop over the blocks of a row's columns."""
        return [
            f"for start in range(0, {self.n}, {self.names.block}):",
            f"    {self.names.columns} = start + tl.arange(0, {self.names.block})",
            f"    {self.load_x(other)}",
            *(f"    {line}" for line in lines),
        ]

    def zeros(self, name: str) -> str:
        return f"{name} = tl.zeros(({self.names.block},), dtype=tl.float32)"

    def full(self, name: str, value: str) -> str:
        return f"{name} = tl.full(({self.names.block},), {value}, dtype=tl.float32)"

    def finish_reduction(self, steps: Sequence[str], pointer: str) -> list[str]:
        """Write the chain on a value a row, and its store."""
        if self.style == "tile":
            return [*steps, f"tl.store({pointer} + rows, {self.names.value}, mask=rows < {self.rows})"]
        return [*steps, f"tl.store({pointer} + row, {self.names.value})"]

    def finish_map(self, steps: Sequence[str], pointer: str) -> list[str]:
        """Write the chain on a value an element, and its store; inside the last sweep where there is one."""
        indent = "    " if self.style == "loop" else ""
        lines = [*steps, f"tl.store({pointer} + {self.place}, {self.names.value}, mask={self.mask})"]
        return [f"{indent}{line}" for line in lines]


@frozen
class Fold:
    """Writes a reduction whose blocks combine by one operation, from what it is made of."""

    other: str
    """What stands where there is no element, and what `acc` begins with."""
    element: str
    whole: str
    combine: str
    last: str = "{v}"

    def __call__(self, body: RowBody) -> list[str]:
        item = self.element.format(x=body.names.x)
        if body.style != "loop":
            value = self.last.format(v=self.whole.format(x=item, along=body.along), n=body.n)
            return [*body.whole(self.other), f"{body.names.value} = {value}"]
        start = body.zeros("acc") if self.other == "0.0" else body.full("acc", self.other)
        value = self.last.format(v=self.whole.format(x="acc", along="axis=0"), n=body.n)
        lines = ["row = tl.program_id(0)", start, *body.sweep(self.other, [self.combine.format(x=item)])]
        return [*lines, f"{body.names.value} = {value}"]


def _extreme_index(function: str, other: str, compare: str) -> Callable[[RowBody], list[str]]:
    def write(body: RowBody) -> list[str]:
        if body.style != "loop":
            return [*body.whole(other), f"{body.names.value} = tl.{function}({body.names.x}, {body.along})"]
        inner = [
            f"better = {body.names.x} {compare} best",
            f"best = tl.where(better, {body.names.x}, best)",
            f"where = tl.where(better, {body.names.columns}, where)",
        ]
        extreme = "max" if function == "argmax" else "min"
        return [
            "row = tl.program_id(0)",
            body.full("best", other),
            f"where = tl.zeros(({body.names.block},), dtype=tl.int32)",
            *body.sweep(other, inner),
            f"top = tl.{extreme}(best, axis=0)",
            f"{body.names.value} = tl.min(tl.where(best == top, where, {body.n}), axis=0)",
        ]

    return write


def _shifted_sum(body: RowBody) -> list[str]:
    """Write lines up to the row's maximum `top` and the sum `total` of exponentials."""
    low, x = f"-{_INFINITY}", body.names.x
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
        lines.append(f"total = tl.sum(tl.exp({body.names.x} - top), {body.along})")
    return [*lines, f"{body.names.value} = top + tl.log(total)"]


def _softmax(body: RowBody) -> list[str]:
    x, v, low = body.names.x, body.names.value, f"-{_INFINITY}"
    if body.style == "loop":
        return [*_shifted_sum(body), *body.sweep(low, [f"{v} = tl.exp({x} - top) / total"])]
    return [
        *_shifted_sum(body),
        f"{v} = tl.exp({x} - top)",
        f"{v} = {v} / tl.sum({v}, {body.along})",
    ]


def _log_softmax(body: RowBody) -> list[str]:
    x, v, low = body.names.x, body.names.value, f"-{_INFINITY}"
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
    return [f"{body.names.value} = {body.names.value} * {body.load_vector(weight)}{bias}"]


def _layer_norm(body: RowBody) -> list[str]:
    x, v, n, along = body.names.x, body.names.value, body.n, body.along
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


def _normalise(element: str, last: str, norm: str = "norm") -> Callable[[RowBody], list[str]]:
    """Return division by a norm of this name, from what an element adds to it and what becomes of the sum."""

    def write(body: RowBody) -> list[str]:
        x, v = body.names.x, body.names.value
        item, divided = element.format(x=x), [f"{v} = {x} / {norm}", *_weigh(body, False)]
        if body.style != "loop":
            value = last.format(v=f"tl.sum({item}, {body.along})", n=body.n, eps=body.eps)
            return [*body.whole("0.0"), f"{norm} = {value}", *divided]
        value = last.format(v="tl.sum(acc, axis=0)", n=body.n, eps=body.eps)
        lines = ["row = tl.program_id(0)", body.zeros("acc"), *body.sweep("0.0", [f"acc += {item}"])]
        return [*lines, f"{norm} = {value}", *body.sweep("0.0", divided)]

    return write


def write_body(producer: str, body: RowBody, result: str, steps: Sequence[str] = ()) -> list[str]:
    """Write the kernel of a reduction or a map, the chain's steps and the store."""
    pointer = body.names.ptr(result)
    if producer in REDUCTIONS:
        return REDUCTIONS[producer](body) + body.finish_reduction(steps, pointer)
    return MAPS[producer](body) + body.finish_map(steps, pointer)


_SUM = "tl.sum({x}, {along})"
_ADD = "acc += {x}"

REDUCTIONS: dict[str, Callable[[RowBody], list[str]]] = {
    "sum": Fold("0.0", "{x}", _SUM, _ADD),
    "mean": Fold("0.0", "{x}", _SUM, _ADD, "{v} / {n}"),
    "max": Fold(f"-{_INFINITY}", "{x}", "tl.max({x}, {along})", "acc = tl.maximum(acc, {x})"),
    "min": Fold(_INFINITY, "{x}", "tl.min({x}, {along})", "acc = tl.minimum(acc, {x})"),
    "l2norm": Fold("0.0", "{x} * {x}", _SUM, _ADD, "tl.sqrt({v})"),
    "sum_squares": Fold("0.0", "{x} * {x}", _SUM, _ADD),
    "mean_squares": Fold("0.0", "{x} * {x}", _SUM, _ADD, "{v} / {n}"),
    "logsumexp": _logsumexp,
    "argmax": _extreme_index("argmax", f"-{_INFINITY}", ">"),
    "argmin": _extreme_index("argmin", _INFINITY, "<"),
}
"""Producers of one value a row."""

_ROOT = "tl.sqrt({v} / {n} + {eps})"
MAPS: dict[str, Callable[[RowBody], list[str]]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _normalise("{x} * {x}", _ROOT, "rms"),
    "l1": _normalise("tl.abs({x})", "{v}"),
    "l1_mean": _normalise("tl.abs({x})", "{v} / {n}"),
    "l1_clamped": _normalise("tl.abs({x})", "tl.maximum({v}, 1e-12)"),
    "l2": _normalise("{x} * {x}", "tl.sqrt({v})"),
    "l2_clamped": _normalise("{x} * {x}", "tl.maximum(tl.sqrt({v}), 1e-12)"),
    "rms": _normalise("{x} * {x}", _ROOT),
}
"""Producers of one value an element."""

SPELLINGS: dict[str, tuple[str, str]] = {
    "sum": ("Sum", "torch.sum({x}, dim={d}{k})"),
    "mean": ("Mean", "torch.mean({x}, dim={d}{k})"),
    "max": ("Maximum", "torch.amax({x}, dim={d}{k})"),
    "min": ("Minimum", "torch.amin({x}, dim={d}{k})"),
    "l2norm": ("L2 norm", "torch.norm({x}, p=2, dim={d}{k})"),
    "sum_squares": ("Sum of squares", "torch.sum({x} * {x}, dim={d}{k})"),
    "mean_squares": ("Mean of squares", "torch.mean({x} * {x}, dim={d}{k})"),
    "logsumexp": ("Log-sum-exp", "torch.logsumexp({x}, dim={d}{k})"),
    "argmax": ("Index of the maximum", "torch.argmax({x}, dim={d}{k})"),
    "argmin": ("Index of the minimum", "torch.argmin({x}, dim={d}{k})"),
    "softmax": ("Softmax", "torch.softmax({x}, dim={d})"),
    "log_softmax": ("Log-softmax", "torch.log_softmax({x}, dim={d})"),
}
"""A producer in words and in PyTorch, along a dimension `{d}` that `{k}` keeps."""
