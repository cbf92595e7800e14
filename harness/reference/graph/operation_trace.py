"""A task's operation graph, from one run of its reference on tensors without values.

What PyTorch dispatches is written down: operators below autograd and below the modules and functions that are built of
others, so that `nn.ReLU`, `F.relu` and `torch.relu` are one. Operators that are formulas are written as these, by
PyTorch's decompositions or, where those are no formulas, by ours (`aten_formulas`); what is done to
a view is done to what it is a view of, and whatever writes into a tensor gives it a new value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from attrs import evolve
from torch.utils._python_dispatch import TorchDispatchMode

from ....core.graphs.graph_hash import hash_graph
from ....core.graphs.operation_graph import EVERYWHERE, LEAF, Operand, OperationGraph
from ....core.task import Profile, Task
from ..reference import blaming, fake_reference
from .aten_formulas import find_formula
from .graph_builder import GraphBuilder, View, count_kept, keep_long, plain
from .operation_call import LIFTED, PERMUTING, REGROUPING, Call, find_decomposition, find_tensors


def trace_graph(task: Task) -> OperationGraph:
    """The graph of the reference at its declared sizes; raises TaskError where it does not run."""
    with fake_reference(task, Profile.DECLARED, task.dtypes[0]) as (model, inputs):
        trace = _GraphTrace()
        with blaming(task, "running the reference failed"), torch.no_grad(), trace:
            returned = model(*inputs)
        return trace.finish(returned)


def fingerprint_task(task: Task) -> str:
    """The hash of the task's graph; raises TaskError."""
    return hash_graph(trace_graph(task))


class _GraphTrace(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes each dispatched operator down; values are known by the identity of the tensors that hold them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._build = GraphBuilder()
        self._values: dict[int, Operand] = {}
        self._written: dict[Any, tuple[int, Operand]] = {}
        self._seen_writes: dict[int, int] = {}
        # an identity is one tensor's for as long as the tensor lives
        self._alive: list[torch.Tensor] = []

    def finish(self, returned: Any) -> OperationGraph:
        """The graph of what was written down, with these results."""
        results = tuple(self._value(tensor) for tensor in find_tensors(returned))
        return OperationGraph(operations=tuple(self._build.operations), results=results)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        decompose = find_decomposition(func)
        if decompose is not None:
            with self:
                return decompose(*args, **(kwargs or {}))
        call = Call(func, args, kwargs or {})
        # a tensor's value is what it was before the operator wrote into it
        sources = {id(tensor): self._value(tensor) for tensor in find_tensors((args, kwargs))}
        result = func(*args, **(kwargs or {}))
        outputs = list(find_tensors(result))
        if not outputs:
            return result
        value = plain(self._record(call, outputs[0], sources))
        for number, tensor in enumerate(outputs):
            found = value if number == 0 else evolve(value, output=number)
            if number and call.name in ("max", "min"):
                place = self._operands(call, tensor, sources)[0]
                found = self._build.reduce(f"arg{call.name}", place, call.first.shape, call.reduced)
            self._assign(tensor, found, is_write=call.writes)
        return result

    def _record(self, call: Call, output: torch.Tensor, sources: dict[int, Operand]) -> Operand:
        """The value that an operator computes: a new operation's, or an argument's where it only passes that on."""
        build = self._build
        if (number := call.find_constant()) is not None:
            return build.constant(number)
        passed = call.passed_on(output)
        if passed is not None:
            return sources[id(passed)]
        constants = {role: build.constants.get(sources[id(tensor)].source) for role, tensor in call.tensors}
        call.take_number({role: number for role, number in constants.items() if number is not None})
        read = self._operands(call, output, sources)
        if call.name in REGROUPING:
            return build.view(read[0], call.first.shape, output.shape)
        if call.name in PERMUTING:
            return build.permute(read[0], call.permutation)
        lifted = self._lift(call, read, output)
        if lifted is not None:
            read, view, shape = lifted
            return build.view(
                self._write(call, read), (*view.shape[: len(view.shape) - len(shape)], *shape), output.shape
            )
        return self._write(call, read)

    def _operands(self, call: Call, output: torch.Tensor, sources: dict[int, Operand]) -> list[Operand]:
        found = []
        for role, tensor in call.tensors:
            value = sources[id(tensor)]
            found.append(evolve(value, role=role, reach=call.reach(tensor, output, self._build.is_given(value))))
        return found

    def _write(self, call: Call, read: Sequence[Operand]) -> Operand:
        """The operator as a formula, or as an operation with its name."""
        build = self._build
        formula = find_formula(call.name)
        by_role = {operand.role: operand for operand in read}
        made = formula(build, call, by_role) if formula is not None and len(by_role) == len(read) else None
        if made is not None:
            return made
        if call.name == "convolution":
            made = build.add(call.form, [by_role["input"], by_role["weight"]], call.attributes)
            return made if "bias" not in by_role else build.total(made, evolve(by_role["bias"], reach=call.channel))
        kept = [operand for operand in read if call.reads(operand.role)]
        # one that is alone is what the operation is of, whatever its argument is called
        made = build.add(call.form, kept if len(kept) > 1 else map(plain, kept), call.attributes)
        if call.number is not None and call.name in ("gt", "ge", "lt", "le"):
            build.compare(read[0], call.name, call.number)
        return made

    def _lift(
        self, call: Call, read: Sequence[Operand], output: torch.Tensor
    ) -> tuple[list[Operand], View, tuple[int, ...]] | None:
        """The operands in the shape that they were viewed from, one of the views, and the last sizes of the result.

        Only where the operator leaves alone what the view regroups.
        """
        views = [self._find_view(operand, tensor) for operand, (_, tensor) in zip(read, call.tensors, strict=True)]
        view = next((view for view in views if view is not None), None)
        if view is None:
            return None
        kept = count_kept(view.groups)
        if call.name == "mm" or (call.name == "bmm" and output.shape[0] == 1):
            place = len(read) - 2
            if views[place] != view or kept < 1 or len(view.view) != 2:
                return None
            return [*read[:place], self._move(read[place], view), read[-1]], view, (int(output.shape[-1]),)
        if call.name == "bmm":
            return self._lift_batch(call, read, views, output)
        if call.name not in LIFTED or keep_long(output.shape) != list(view.view):
            return None
        if call.has_dims and (min(call.reduced) < -kept or 1 in call.first.shape[min(call.reduced) :]):
            return None
        moved = []
        for operand, other in zip(read, views, strict=True):
            if other is not None and (other.shape, other.view) == (view.shape, view.view):
                moved.append(self._move(operand, other))
            elif self._is_inside(operand, kept, output):
                moved.append(operand)
            else:
                return None
        return moved, view, view.shape

    def _lift_batch(
        self, call: Call, read: Sequence[Operand], views: Sequence[View | None], output: torch.Tensor
    ) -> tuple[list[Operand], View, tuple[int, ...]] | None:
        left, right = views
        if left is None or right is None or min(count_kept(left.groups), count_kept(right.groups)) < 2:
            return None
        if left.shape[:-2] != right.shape[:-2] or left.view[0] != right.view[0]:
            return None
        call.num_outer = len(left.shape) - 2
        sizes = (int(output.shape[-2]), int(output.shape[-1]))
        return [self._move(read[0], left), self._move(read[1], right)], left, sizes

    def _find_view(self, operand: Operand, tensor: torch.Tensor) -> View | None:
        view = self._build.views.get(operand.source)
        return view if view is not None and list(view.view) == keep_long(tensor.shape) and operand.output == 0 else None

    @staticmethod
    def _move(operand: Operand, view: View) -> Operand:
        return evolve(view.base, role=operand.role, reach=operand.reach)

    def _is_inside(self, operand: Operand, kept: int, output: torch.Tensor) -> bool:
        """Whether an operand varies along the last `kept` dimensions alone."""
        if operand.reach == "nowhere" or operand.source in self._build.constants:
            return True
        if operand.reach == EVERYWHERE or not self._build.is_given(operand) or 1 in output.shape[-kept:]:
            return False
        return all(int(dim) >= -kept for dim in operand.reach.split(","))

    def _value(self, tensor: torch.Tensor) -> Operand:
        """The value that a tensor holds now; a leaf's where nothing computed it."""
        if id(tensor) not in self._values:
            self._alive.append(tensor)
            self._values[id(tensor)] = self._build.add(LEAF)
            self._seen_writes[id(tensor)] = self._written.get(_storage(tensor), (0, None))[0]
        number, write = self._written.get(_storage(tensor), (0, None))
        if number > self._seen_writes[id(tensor)] and write is not None:
            # another view of the same memory was written since: this one's value is the old one under the new
            self._values[id(tensor)] = self._build.add("overwritten", [self._values[id(tensor)], write])
            self._seen_writes[id(tensor)] = number
        return self._values[id(tensor)]

    def _assign(self, tensor: torch.Tensor, value: Operand, is_write: bool) -> None:
        self._alive.append(tensor)
        self._values[id(tensor)] = value
        number = self._written.get(_storage(tensor), (0, value))[0]
        if is_write:
            number += 1
            self._written[_storage(tensor)] = (number, value)
        self._seen_writes[id(tensor)] = number


def _storage(tensor: torch.Tensor) -> Any:
    return tensor.untyped_storage()._cdata
