"""One dispatched ATen operator: its name in an operation graph, and what of its arguments says more than a number.

Overloads, in-place forms and the several operators that differ by constants alone get one name: `relu`, `relu6`,
`clamp_min` and `hardtanh` clamp from below, above, or both. Operators that only move a tensor's header, copy it or
cast it do nothing here. An operator that no table names keeps its own name, its flags and its dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table

from ....core.graphs.operation_graph import EVERYWHERE, NUMBER
from .graph_builder import join, keep_long, name_dims, name_reach

DECOMPOSED = frozenset(
    {"_log_softmax", "_safe_softmax", "_softmax", "hardsigmoid", "leaky_relu", "mish", "silu", "_prelu_kernel"}
    | {"addcdiv", "addcmul", "addmm", "addmv", "baddbmm", "dot", "mse_loss", "soft_margin_loss", "std", "xlogy"}
    | {"native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "cudnn_batch_norm"}
)
"""Operators that are traced as what PyTorch's decompositions make of them."""

TRANSPARENT = frozenset(
    {"alias", "clone", "contiguous", "detach", "lift", "lift_fresh", "lift_fresh_copy", "positive", "real"}
    | {"_to_copy", "to", "squeeze", "unsqueeze", "expand", "view_as", "expand_as", "resolve_conj", "resolve_neg"}
)
"""Operators whose result holds the values of their first argument, in the same order."""

REGROUPING = frozenset({"view", "_unsafe_view", "reshape", "_reshape_alias", "flatten", "unflatten"})
"""Operators that split and merge dimensions: nothing where the dimensions that are longer than one stay as they are."""

PERMUTING = frozenset({"t", "transpose", "permute", "numpy_T", "mT", "swapaxes", "swapdims", "movedim"})

WINDOWING = frozenset({"slice", "narrow"})
"""Operators that do nothing where they take all there is."""

TAKING = frozenset({"select"})
"""Operators that do nothing where there is one to choose from."""

CREATING = frozenset({"empty", "zeros", "ones", "full", "rand", "randn", "empty_strided"})
"""Operators whose `_like` and `new_` forms read a tensor for its shape alone."""

REDUCING = frozenset(
    {"sum", "mean", "amax", "amin", "prod", "argmax", "argmin", "max", "min", "var", "std", "var_mean", "std_mean"}
    | {"all", "any", "logsumexp", "linalg_vector_norm", "count_nonzero", "median"}
)
"""Operators that reduce over every dimension where none is named; `max` and `min` of two tensors are renamed first."""

SYNONYMS = {
    "relu": "clamp",
    "relu6": "clamp",
    "hardtanh": "clamp",
    "clamp_min": "clamp",
    "clamp_max": "clamp",
    "clip": "clamp",
    "mm": "matmul",
    "norm": "linalg_vector_norm",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "subtract": "sub",
    "logical_not": "bitwise_not",
    "huber_loss": "smooth_l1_loss",
    "absolute": "abs",
    "_unsafe_view": "view",
    "reshape": "view",
    "_convolution": "convolution",
    "log_sigmoid_forward": "log_sigmoid",
}

TAKING_NUMBERS = {
    "add": ("add", "add"),
    "mul": ("mul", "mul"),
    "sub": ("rsub", "sub"),
    "div": ("number_over", "div"),
    "maximum": ("clamp_min", "clamp_min"),
    "minimum": ("clamp_max", "clamp_max"),
    "gt": ("lt", "gt"),
    "ge": ("le", "ge"),
    "lt": ("gt", "lt"),
    "le": ("ge", "le"),
}
"""What operators of two tensors are where the first, or the second, is one number everywhere."""

LIFTED = frozenset(
    {"add", "sub", "rsub", "mul", "div", "neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "pow", "abs", "sin", "cos"}
    | {"tanh", "sigmoid", "erf", "relu", "relu6", "clamp", "clamp_min", "clamp_max", "hardtanh", "elu"}
    | {"gelu", "softplus", "hardswish", "log_sigmoid_forward", "expm1", "log1p"}
    | {"gt", "ge", "lt", "le", "where", "masked_fill", "threshold", "maximum", "minimum", "lerp"}
    | {"cumsum", "cumprod", "flip", "number_over", "square", "sign"}
)
"""Operators of elements, or along named dimensions: a view's elements, or dimensions that it leaves, are its base's."""

NOT_BROADCASTING = frozenset(
    {"matmul", "mm", "bmm", "mv", "dot", "convolution", "cat", "stack", "gather", "scatter", "index", "embedding"}
    | {"native_layer_norm", "native_group_norm", "nll_loss_forward", "nll_loss2d_forward", "_fused_rms_norm"}
)
"""Operators whose arguments may have shapes that would broadcast to the result's by chance."""

BOUNDS = {
    "relu": ("lower",),
    "relu6": ("lower", "upper"),
    "hardtanh": ("lower", "upper"),
    "clamp_min": ("lower",),
    "clamp_max": ("upper",),
}
"""Which sides these clamp."""

DIMENSIONS = frozenset({"dim", "dims", "dim0", "dim1", "dim2", "axis"})
"""Arguments that name dimensions."""

NAMED_CHOICES = frozenset({"reduction", "ord", "p", "approximate", "mode", "rounding_mode", "padding_mode"})
"""Arguments that choose the operation although they may be numbers: the kind of a loss's reduction or of a norm."""

IGNORED = frozenset(
    {"keepdim", "pin_memory", "non_blocking", "implicit", "half_to_float", "allow_tf32", "benchmark", "deterministic"}
    | {"cudnn_enabled", "ceil_mode", "copy", "inplace", "stable", "unbiased", "count_include_pad"}
)
"""Flags that change a shape, an edge or a constant factor, and no more."""


def find_decomposition(operator: Any) -> Callable[..., Any] | None:
    """PyTorch's decomposition of an operator that is to be traced as one; of an in-place form, one that writes."""
    if name_operator(operator._schema.name) not in DECOMPOSED:
        return None
    if operator in decomposition_table:
        return decomposition_table[operator]
    packet: Any = getattr(torch.ops.aten, name_operator(operator._schema.name), None)
    overload: Any = getattr(packet, operator._overloadname, None)
    functional = decomposition_table.get(overload)
    if functional is None:
        return None
    return lambda target, *args, **kwargs: target.copy_(functional(target, *args, **kwargs))


def name_operator(name: str) -> str:
    """The operator without namespace and without the mark of the in-place forms."""
    short = name.rpartition("::")[2]
    if short.endswith("_") and not short.endswith("__"):
        short = short[:-1]
    if short.endswith("_like") and short.removesuffix("_like") in CREATING:
        return short.removesuffix("_like")
    if short.startswith("new_") and short.removeprefix("new_") in CREATING:
        return short.removeprefix("new_")
    return short


class Call:
    """One dispatched operator with its arguments by name."""

    def __init__(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        schema = func._schema
        self.name = name_operator(schema.name)
        self.num_outer = 1
        """Outer dimensions of the matrices of a batched product."""
        self.writes = any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
        self.given: dict[str, Any] = {}
        for place, argument in enumerate(schema.arguments):
            default = argument.default_value if argument.has_default_value() else None
            self.given[argument.name] = args[place] if place < len(args) else kwargs.get(argument.name, default)
        self.tensors = [(role, tensor) for role, value in self.given.items() for tensor in find_tensors(value)]
        if self.name in ("max", "min"):
            self.name += "imum" if len(self.tensors) > 1 else ""

    @property
    def first(self) -> torch.Tensor:
        """The first tensor among the arguments."""
        return self.tensors[0][1]

    @property
    def form(self) -> str:
        """The operation's name in the graph."""
        if self.name == "convolution":
            kind = "transposed_convolution" if self.given["transposed"] else "convolution"
            return f"{kind}{self.given['weight'].dim() - 2}d"
        return SYNONYMS.get(self.name, self.name)

    @property
    def number(self) -> float | None:
        """The number that a tensor is combined or compared with."""
        # `torch.add(2.0, x)` has the number first
        is_first = self.name in ("add", "mul") and not isinstance(self.given.get("self"), torch.Tensor)
        other = self.given.get("self" if is_first else "other")
        return float(other) if isinstance(other, (int, float)) and not isinstance(other, bool) else None

    def find_constant(self) -> float | None:
        """The number that fills the result, where it is one and the same everywhere."""
        if self.name in ("lift_fresh", "lift_fresh_copy") and self.first.numel() == 1:
            held = getattr(self.first, "constant", None)
            return math.nan if held is None else float(held)
        if self.name in ("fill", "full"):
            value = self.given.get("fill_value", self.given.get("value"))
            return float(value) if isinstance(value, (int, float)) else None
        if self.name == "scalar_tensor":
            return float(self.given["s"])
        return {"zeros": 0.0, "zero": 0.0, "ones": 1.0}.get(self.name)

    def take_number(self, constants: dict[str, float]) -> None:
        """Take a constant tensor that another one is combined with for its number."""
        roles = [role for role, _ in self.tensors]
        if len(constants) == 1 and len(roles) == 2 and self.name in TAKING_NUMBERS:
            ((role, number),) = constants.items()
            other = next(name for name in roles if name != role)
            self.name = TAKING_NUMBERS[self.name][roles.index(role)]
            self.tensors = [("self", tensor) for name, tensor in self.tensors if name == other]
            self.given.update({"self": self.tensors[0][1], "other": number})
        elif self.form == "clamp":
            self.tensors = [pair for pair in self.tensors if pair[0] not in constants or pair[0] == "self"]

    @property
    def has_dims(self) -> bool:
        """Whether it names dimensions."""
        return any(self.given.get(name) is not None for name in DIMENSIONS)

    def reads(self, role: str) -> bool:
        """Whether the operation needs that tensor's values."""
        if self.name in CREATING:
            return False
        return not (self.given.get("training") is True and role in ("running_mean", "running_var"))

    def passed_on(self, output: torch.Tensor) -> torch.Tensor | None:
        """The tensor whose values the output holds as they are, if there is one."""
        if not self.tensors:
            return None
        if self.name == "copy":
            return self.tensors[-1][1]
        same = (
            self.name in TRANSPARENT
            or (self.name in REGROUPING and keep_long(self.first.shape) == keep_long(output.shape))
            or (self.name in WINDOWING and self.first.shape == output.shape)
            or (self.name in TAKING and keep_long(self.first.shape) == keep_long(output.shape))
            or (self.name in PERMUTING and not self.permutation)
            or (self.name in ("add", "sub") and self.number == 0)
            or (self.name in ("mul", "div") and self.number == 1 and not self.given.get("rounding_mode"))
        )
        return self.first if same else None

    @property
    def permutation(self) -> tuple[int, ...]:
        """The order of the last dimensions that are longer than one, from the first that moves on."""
        rank = self.first.dim()
        order = list(range(rank))
        if "dims" in self.given:
            order = [dim % rank for dim in self.given["dims"]]
        elif rank >= 2:
            one, other = self.given.get("dim0", -2) % rank, self.given.get("dim1", -1) % rank
            order[one], order[other] = order[other], order[one]
        long = [dim for dim in range(rank) if self.first.shape[dim] != 1]
        order = [long.index(dim) for dim in order if dim in long]
        fixed = next((place for place, dim in enumerate(order) if place != dim), len(order))
        return tuple(dim - len(order) for dim in order[fixed:])

    @property
    def channel(self) -> str:
        """The reach of a convolution's bias."""
        return str(1 - int(self.given["weight"].dim()))

    def reach(self, tensor: torch.Tensor, output: torch.Tensor, is_given: bool) -> str:
        """Along which dimensions of the result an operand varies."""
        if self.name in NOT_BROADCASTING:
            return EVERYWHERE
        return name_reach(tensor.shape, tensor.stride(), output.shape, is_given)

    @property
    def attributes(self) -> list[str]:
        """What is no constant, as texts."""
        if self.name == "convolution":
            return [*name_channels(self.given["groups"], self.given["input"].shape[1]), self._windows("weight")]
        texts = [*BOUNDS.get(self.name, ()), *self._choices()]
        if self.name in ("clamp", "clip"):
            texts = [side for side, bound in (("lower", "min"), ("upper", "max")) if self.given[bound] is not None]
        if self.number is not None and self.form != "clamp":
            texts.append(NUMBER)
        if self.name in ("slice", "select"):
            texts += self._ends()
        if "kernel_size" in self.given:
            texts.append(self._windows("kernel_size"))
        if "normalized_shape" in self.given:
            texts.append("dim=" + join(range(-len(self.given["normalized_shape"]), 0)))
        if self.name == "native_group_norm":
            texts += name_channels(self.given["group"], self.given["C"])
        return texts

    def _ends(self) -> list[str]:
        """Which ends of a dimension are taken: a first half is not a last half."""
        size = self.first.shape[self.given["dim"]]
        start = self.given.get("start", self.given.get("index")) or 0
        start = max(0, start + size if start < 0 else start)
        end = self.given.get("end", start + 1)
        end = size if end is None else min(size, end + size if end < 0 else end)
        texts = [name for name, is_end in (("from=first", start == 0), ("to=last", end == size)) if is_end]
        return [*texts, "stepped"] if self.given.get("step", 1) != 1 else texts

    def _windows(self, argument: str) -> str:
        """The dimensions that a window is longer than one in."""
        given = self.given[argument]
        sizes = list(given.shape[2:]) if isinstance(given, torch.Tensor) else list(given)
        if argument == "kernel_size" and len(sizes) == 1:
            sizes *= int(self.name.partition("pool")[2][:1] or 1)
        return "windows=" + join(place - len(sizes) for place, size in enumerate(sizes) if size != 1)

    def _choices(self) -> list[str]:
        texts = []
        for name, value in self.given.items():
            if name in DIMENSIONS and self.tensors:
                texts += self._dimensions(name, value)
            elif name in NAMED_CHOICES and not isinstance(value, torch.Tensor):
                texts.append(_name_choice(name, value))
            elif name in IGNORED:
                continue
            elif isinstance(value, (bool, str)):
                texts.append(f"{name}={value}")
        if self.name in REDUCING and not any(name in self.given for name in DIMENSIONS):
            texts.append(f"dim={EVERYWHERE}")
        return texts

    def _dimensions(self, name: str, value: Any) -> list[str]:
        rank = max(1, self.first.dim() + (self.name == "stack"))
        if value is None or (isinstance(value, (list, tuple)) and not value):
            return [f"dim={EVERYWHERE}"] if self.name in REDUCING else []
        dims = [dim % rank - rank for dim in (value if isinstance(value, (list, tuple)) else [value])]
        if self.name in REDUCING:
            return [f"{name}={name_dims(dims, rank)}"]
        return [f"{name}={join(sorted(dims))}"]

    @property
    def reduced(self) -> list[int]:
        """The dimensions that the operator reduces, from the end: those that it names, or all."""
        rank = max(1, self.first.dim())
        named = next((self.given[name] for name in DIMENSIONS if name in self.given), None)
        if named is None or (isinstance(named, (list, tuple)) and not named):
            return list(range(-rank, 0))
        return sorted({dim % rank - rank for dim in (named if isinstance(named, (list, tuple)) else [named])})


def _name_choice(name: str, value: object) -> str:
    # a norm's order is `p` in one operator and `ord` in another, and 2 or 2.0
    return f"{'ord' if name == 'p' else name}={float(value) if isinstance(value, (int, float)) else value}"


def name_channels(groups: int, num_channels: int) -> list[str]:
    """Whether channels are taken together: all, none, or some."""
    if groups == 1:
        return ["channels=together"]
    return ["channels=apart"] if groups == num_channels else ["channels=in groups"]


def find_tensors(value: Any) -> Iterable[torch.Tensor]:
    """The tensors in nested arguments or results, in their order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from find_tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from find_tensors(item)
