"""A task's operation graph, from one run of its reference on tensors without values.

What PyTorch dispatches is written down: operators below autograd and below the modules and functions that are built of
others, so that `nn.ReLU`, `F.relu` and `torch.relu` are one. Some operators are written as what they consist of (a
linear layer is a product, a transposition and a sum), and whatever writes into a tensor gives it a new value.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from attrs import evolve
from torch.utils._python_dispatch import TorchDispatchMode

from ...core.operation_graph import EVERYWHERE, LEAF, Operand, Operation, OperationGraph, hash_graph
from ...core.task import Profile, Task
from ..errors import TaskError
from . import aten_forms
from .reference import RAISED, fake_reference, one_line


def trace_graph(task: Task) -> OperationGraph:
    """The graph of the reference at its declared sizes; raises TaskError where it does not run."""
    with fake_reference(task, Profile.DECLARED, task.dtypes[0]) as (model, inputs):
        trace = _GraphTrace()
        try:
            with torch.no_grad(), trace:
                returned = model(*inputs)
        except RAISED as error:
            raise TaskError(f"{task.task_id}: running the reference failed: {one_line(error)}") from error
        return trace.finish(returned)


def fingerprint_task(task: Task) -> str:
    """The hash of the task's graph; raises TaskError."""
    return hash_graph(trace_graph(task))


class _GraphTrace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes each dispatched operator down; values are known by the identity of the tensors that hold them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._operations: list[Operation] = []
        self._values: dict[int, tuple[int, int]] = {}
        self._written: dict[Any, tuple[int, tuple[int, int]]] = {}
        self._seen_writes: dict[int, int] = {}
        self._orders: dict[int, tuple[int, ...]] = {}
        # an identity is one tensor's for as long as the tensor lives
        self._alive: list[torch.Tensor] = []

    def finish(self, returned: Any) -> OperationGraph:
        """The graph of what was written down, with these results."""
        results = tuple(self._operand(tensor) for tensor in _tensors(returned))
        return OperationGraph(operations=tuple(self._operations), results=results)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = _Call(func, args, kwargs or {})
        # a tensor's value is what it was before the operator wrote into it
        sources = {id(tensor): self._value(tensor) for tensor in _tensors((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        outputs = list(_tensors(result))
        if not outputs:
            return result
        value = self._record(call, outputs[0], sources)
        for number, tensor in enumerate(outputs):
            self._assign(tensor, value if number == 0 else (value[0], number), is_write=call.writes)
        return result

    def _record(self, call: _Call, output: torch.Tensor, sources: dict[int, tuple[int, int]]) -> tuple[int, int]:
        """The value that an operator computes: a new operation's, or an argument's where it only passes that on."""
        passed = call.passed_on(output)
        if passed is not None:
            return sources[id(passed)]
        read = [
            Operand(source=source, output=number, role=role, reach=call.reach(tensor, output, self._is_given(source)))
            for role, tensor in call.tensors
            for source, number in [sources[id(tensor)]]
        ]
        by_role = {operand.role: operand for operand in read}
        first = read[0] if read else None
        exponent = call.given.get("exponent")
        if call.form in aten_forms.SUMS_OF_PRODUCTS.values() or call.name in aten_forms.SUMS_OF_PRODUCTS:
            # the same matrices go by other names in `mm` and in `addmm`; their order says all
            read = [evolve(operand, role="") for operand in read]
        if call.name in aten_forms.SUMS_OF_PRODUCTS:
            made = self._add(aten_forms.SUMS_OF_PRODUCTS[call.name], read[1:3])
            return self._add("add", [read[0], made]), 0
        if call.name == "convolution" and "bias" in by_role:
            made = self._add(call.form, [by_role["input"], by_role["weight"]], call.attributes)
            return self._add("add", [made, evolve(by_role["bias"], reach=call.channel)]), 0
        if call.name == "silu" and first is not None:
            return self._add("mul", [first, self._add("sigmoid", [first])]), 0
        if call.name == "mish" and first is not None:
            return self._add("mul", [first, self._add("tanh", [self._add("softplus", [first])])]), 0
        if call.name == "pow" and first is not None and exponent in (2, 3, 4):
            return self._add("mul", [first] * int(exponent)), 0
        if call.name in aten_forms.PERMUTING:
            return self._permute(read[0], call.permutation)
        return self._add(call.form, [operand for operand in read if call.reads(operand.role)], call.attributes), 0

    def _is_given(self, place: int) -> bool:
        return self._operations[place].name == LEAF

    def _permute(self, given: Operand, order: tuple[int, ...]) -> tuple[int, int]:
        """The value with its last dimensions in that order; two permutations in a row are one."""
        inner = self._orders.get(given.source)
        if inner is not None:
            given = self._operations[given.source].operands[0]
            width = max(len(inner), len(order))
            inner = (*range(-width, -len(inner)), *inner)
            order = tuple(inner[dim] for dim in (*range(-width, -len(order)), *order))
            moved = [place for place, dim in enumerate(order) if dim != place - width]
            if not moved:
                return given.source, given.output
            order = order[moved[0] :]
        place = self._add("permute", [given], [_join(order)])
        self._orders[place] = order
        return place, 0

    def _add(self, name: str, operands: Iterable[Operand | int] = (), attributes: Sequence[str] = ()) -> int:
        """A new operation's place; an operand may be the place of another one."""
        given = tuple(Operand(source=operand) if isinstance(operand, int) else operand for operand in operands)
        self._operations.append(Operation(name=name, operands=given, attributes=tuple(attributes)))
        return len(self._operations) - 1

    def _value(self, tensor: torch.Tensor) -> tuple[int, int]:
        """The value that a tensor holds now; a leaf's where nothing computed it."""
        if id(tensor) not in self._values:
            self._alive.append(tensor)
            self._values[id(tensor)] = (self._add(LEAF), 0)
            self._seen_writes[id(tensor)] = self._written.get(_storage(tensor), (0, (0, 0)))[0]
        number, write = self._written.get(_storage(tensor), (0, (0, 0)))
        if number > self._seen_writes[id(tensor)]:
            # another view of the same memory was written since: this one's value is the old one under the new
            old = self._values[id(tensor)]
            both = [Operand(source=old[0], output=old[1]), Operand(source=write[0], output=write[1])]
            self._values[id(tensor)] = (self._add("overwritten", both), 0)
            self._seen_writes[id(tensor)] = number
        return self._values[id(tensor)]

    def _assign(self, tensor: torch.Tensor, value: tuple[int, int], is_write: bool) -> None:
        self._alive.append(tensor)
        self._values[id(tensor)] = value
        number = self._written.get(_storage(tensor), (0, value))[0]
        if is_write:
            number += 1
            self._written[_storage(tensor)] = (number, value)
        self._seen_writes[id(tensor)] = number

    def _operand(self, tensor: torch.Tensor) -> Operand:
        source, output = self._value(tensor)
        return Operand(source=source, output=output)


class _Call:
    """One dispatched operator with its arguments by name."""

    def __init__(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        schema = func._schema
        self.name = aten_forms.name_operator(schema.name)
        self.writes = any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
        self.given: dict[str, Any] = {}
        for place, argument in enumerate(schema.arguments):
            default = argument.default_value if argument.has_default_value() else None
            self.given[argument.name] = args[place] if place < len(args) else kwargs.get(argument.name, default)
        self.tensors = [(role, tensor) for role, value in self.given.items() for tensor in _tensors(value)]
        if self.name in ("max", "min") and len(self.tensors) > 1:
            self.name += "imum"

    @property
    def _first(self) -> torch.Tensor:
        return self.tensors[0][1]

    @property
    def form(self) -> str:
        """The operation's name in the graph."""
        if self.name == "convolution":
            kind = "transposed_convolution" if self.given["transposed"] else "convolution"
            return f"{kind}{self.given['weight'].dim() - 2}d"
        if self._number() is not None and self.name in ("div", "sub"):
            # by a number: a product or a sum with another one
            return {"div": "mul", "sub": "add"}[self.name]
        return aten_forms.SYNONYMS.get(self.name, self.name)

    def _number(self) -> int | float | None:
        # `torch.add(2.0, x)` has the number first
        is_first = self.name in ("add", "mul") and not isinstance(self.given.get("self"), torch.Tensor)
        other = self.given.get("self" if is_first else "other")
        return other if isinstance(other, (int, float)) and not isinstance(other, bool) else None

    def reads(self, role: str) -> bool:
        """Whether the operation needs that tensor's values."""
        if self.name in aten_forms.CREATING:
            return False
        return not (self.given.get("training") is True and role in ("running_mean", "running_var"))

    def passed_on(self, output: torch.Tensor) -> torch.Tensor | None:
        """The tensor whose values the output holds as they are, if there is one."""
        if not self.tensors:
            return None
        if self.name == "copy":
            return self.tensors[-1][1]
        same = (
            self.name in aten_forms.TRANSPARENT
            or (self.name in aten_forms.REGROUPING and _long(self._first) == _long(output))
            or (self.name in aten_forms.WINDOWING and self._first.shape == output.shape)
            or (self.name in aten_forms.PERMUTING and not self.permutation)
        )
        return self._first if same else None

    @property
    def permutation(self) -> tuple[int, ...]:
        """The order of the last dimensions, from the first that moves on, counted from the end."""
        rank = self._first.dim()
        order = list(range(rank))
        if "dims" in self.given:
            order = [dim % rank for dim in self.given["dims"]]
        elif rank >= 2:
            one, other = self.given.get("dim0", -2) % rank, self.given.get("dim1", -1) % rank
            order[one], order[other] = order[other], order[one]
        fixed = next((place for place, dim in enumerate(order) if place != dim), rank)
        return tuple(dim - rank for dim in order[fixed:])

    @property
    def channel(self) -> str:
        """The reach of a convolution's bias."""
        return str(1 - int(self.given["weight"].dim()))

    def reach(self, tensor: torch.Tensor, output: torch.Tensor, is_given: bool) -> str:
        """Along which dimensions of the result an operand varies."""
        if self.name in aten_forms.NOT_BROADCASTING:
            return EVERYWHERE
        return _name_reach(tensor, output, is_given)

    @property
    def attributes(self) -> list[str]:
        """What is no constant, as texts."""
        if self.name == "convolution":
            return [*_channels(self.given["groups"], self.given["input"].shape[1]), self._windows("weight")]
        texts = [*aten_forms.BOUNDS.get(self.name, ()), *self._choices()]
        if self.name == "clamp":
            texts = [side for side, bound in (("lower", "min"), ("upper", "max")) if self.given[bound] is not None]
        if self._number() is not None:
            texts.append("number")
        if "kernel_size" in self.given:
            texts.append(self._windows("kernel_size"))
        if "normalized_shape" in self.given:
            texts.append("dim=" + _join(range(-len(self.given["normalized_shape"]), 0)))
        if self.name == "native_group_norm":
            texts += _channels(self.given["group"], self.given["C"])
        return texts

    def _windows(self, argument: str) -> str:
        """The dimensions that a window is longer than one in."""
        given = self.given[argument]
        sizes = list(given.shape[2:]) if isinstance(given, torch.Tensor) else list(given)
        if argument == "kernel_size" and len(sizes) == 1:
            sizes *= int(self.name.partition("pool")[2][:1] or 1)
        return "windows=" + _join(place - len(sizes) for place, size in enumerate(sizes) if size != 1)

    def _choices(self) -> list[str]:
        texts = []
        for name, value in self.given.items():
            if name in aten_forms.DIMENSIONS and self.tensors:
                texts += self._dimensions(name, value)
            elif name in aten_forms.NAMED_CHOICES and not isinstance(value, torch.Tensor):
                texts.append(_name_choice(name, value))
            elif name in aten_forms.IGNORED:
                continue
            elif isinstance(value, (bool, str)):
                texts.append(f"{name}={value}")
        if self.name in aten_forms.REDUCING and not any(name in self.given for name in aten_forms.DIMENSIONS):
            texts.append(f"dim={EVERYWHERE}")
        return texts

    def _dimensions(self, name: str, value: Any) -> list[str]:
        rank = max(1, self._first.dim() + (self.name == "stack"))
        if value is None or (isinstance(value, (list, tuple)) and not value):
            return [f"dim={EVERYWHERE}"] if self.name in aten_forms.REDUCING else []
        dims = sorted(dim % rank - rank for dim in (value if isinstance(value, (list, tuple)) else [value]))
        if self.name in aten_forms.REDUCING and len(dims) == rank:
            return [f"dim={EVERYWHERE}"]
        return [f"{name}={_join(dims)}"]


def _name_choice(name: str, value: object) -> str:
    # a norm's order is `p` in one operator and `ord` in another, and 2 or 2.0
    return f"{'ord' if name == 'p' else name}={float(value) if isinstance(value, (int, float)) else value}"


def _channels(groups: int, num_channels: int) -> list[str]:
    """Whether channels are taken together: all, none, or some."""
    if groups == 1:
        return ["channels=together"]
    return ["channels=apart"] if groups == num_channels else ["channels=in groups"]


def _name_reach(tensor: torch.Tensor, output: torch.Tensor, is_given: bool) -> str:
    """Where an operand broadcasts, the dimensions along which it varies; of a computed one those where it does not.

    Either way the number of outer dimensions is left open: a column's mean is "not -1" in a matrix and in a batch of
    matrices, a parameter for each column is "-1" in both.
    """
    if not _spreads(tensor, output):
        return EVERYWHERE
    missing = output.dim() - tensor.dim()
    varies = {
        place - output.dim(): place >= missing
        and tensor.shape[place - missing] != 1
        and tensor.stride(place - missing) != 0
        for place, size in enumerate(output.shape)
        if size != 1
    }
    if all(varies.values()):
        return EVERYWHERE
    if not any(varies.values()):
        return "nowhere"
    named = _join(dim for dim, varying in varies.items() if varying == is_given)
    return named if is_given else f"not {named}"


def _spreads(tensor: torch.Tensor, output: torch.Tensor) -> bool:
    """Whether a tensor broadcasts to the result's shape."""
    pairs = zip(reversed(tensor.shape), reversed(output.shape), strict=False)
    return tensor.dim() <= output.dim() and all(size in (1, wanted) for size, wanted in pairs)


def _long(tensor: torch.Tensor) -> list[int]:
    return [size for size in tensor.shape if size != 1]


def _join(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def _storage(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage()._cdata


def _tensors(value: Any) -> Iterable[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
