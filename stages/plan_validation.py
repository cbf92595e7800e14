"""Validates launch plans: what a plan as data says about the candidate before anything is run.

The question is whether launched kernels do the work: every returned buffer is written by a launch, every input that
the reference's result depends on reaches the result through at least one launch, and no PyTorch operator is left that
computes (at purity "lenient" such operators are steps, and inputs may reach the result through them too). Dependencies
are followed buffer by buffer, which over-estimates them: validation never refuses a genuine plan for reading a slice,
and the hacks that it misses (a kernel that reads an input and ignores it) fail on values. What the candidate was given
is not its memory: a step that stores to an input or a parameter is refused even where a later one restores it, which
no comparison before and after would see.
"""

from __future__ import annotations

import math
import re

from ..core.candidate import Failure, ReferenceSignature
from ..core.outcome import Outcome
from ..core.plan import Buffer, BufferKind, Copy, Kernel, Launch, LaunchPlan, Operator, Purity, Step, View, views_of

_MAX_ELEMENTS = 2**48 - 1
"""No GPU addresses more; beyond this, what a plan claims would overflow the judge's floating-point estimates."""
_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_DIMENSIONS = 64
_OPERATOR = re.compile(r"[a-z0-9_]{1,80}\.[A-Za-z0-9_]{1,80}")
_MAX_SHARED_BYTES = 2**31


def validate_plan(
    plan: LaunchPlan,
    reference: ReferenceSignature | None,
    used_inputs: tuple[int, ...] = (),
    purity: Purity = "strict",
) -> Failure | None:
    """The first objection to a plan, or None.

    `reference` is the signature at the sizes and dtype that the plan was recorded for; without it, the shapes and
    dtypes of the outputs are not judged and `used_inputs` says which inputs the result must depend on.
    """
    failure = check_structure(plan)
    if failure is not None:
        return failure
    is_admitted = purity == "lenient" and len(plan.arithmetic) == len(plan.operators)
    if not is_admitted and (plan.arithmetic or plan.operators):
        operators = ", ".join(sorted(set(plan.arithmetic)))
        return Failure(Outcome.TORCH_ARITHMETIC, operators)
    if not plan.launches:
        return Failure(Outcome.NO_LAUNCH)
    if reference is not None:
        failure = _check_signature(plan, reference)
        if failure is not None:
            return failure
        used_inputs = reference.used_inputs
    return _find_mutation(plan) or _check_flow(plan, used_inputs)


def check_structure(plan: LaunchPlan) -> Failure | None:
    """Whether a plan, which an untrusted process wrote, is consistent in itself: indices, names, extents."""
    for step in plan.steps:
        match step:
            case Launch():
                if not 0 <= step.kernel < len(plan.kernels):
                    return _inconsistent("a launch of an unknown kernel")
                if any(not 0 <= extent <= limit for extent, limit in zip(step.grid, _MAX_GRID, strict=True)):
                    return _inconsistent("a launch on an impossible grid")
            case Operator(name=name, operands=operands):
                if not _OPERATOR.fullmatch(name) or any(item.items for operand in operands for item in operand.items):
                    return _inconsistent("an operator that no plan can hold")
    for view in (*plan.outputs, *(view for step in plan.steps for view in views_of(step))):
        if not 0 <= view.buffer < len(plan.buffers):
            return _inconsistent("a view of an unknown buffer")
        if not _is_possible_view(view):
            return _inconsistent("a view with an impossible shape, stride or offset")
    if not all(map(_is_possible_buffer, plan.buffers)):
        return _inconsistent("a buffer with an impossible size or name")
    if not all(map(_is_possible_kernel, plan.kernels)):
        return _inconsistent("a kernel with an impossible number of warps or amount of shared memory")
    return None


def _is_possible_view(view: View) -> bool:
    return (
        len(view.shape) == len(view.stride) <= _MAX_DIMENSIONS
        and 0 <= view.offset <= _MAX_ELEMENTS
        and all(abs(step) <= _MAX_ELEMENTS for step in view.stride)
        and all(0 <= extent <= _MAX_ELEMENTS for extent in view.shape)
        # empty dimensions count as 1, because not everybody multiplies all of them
        and math.prod(max(1, extent) for extent in view.shape) <= _MAX_ELEMENTS
    )


def _is_possible_buffer(buffer: Buffer) -> bool:
    is_named = buffer.kind is not BufferKind.INPUT or (
        buffer.name.isascii() and buffer.name.isdigit() and len(buffer.name) < 10
    )
    is_hash = buffer.blob is None or (len(buffer.blob) == 64 and buffer.blob.isascii())
    return is_named and is_hash and 0 <= buffer.num_elements <= _MAX_ELEMENTS


def _is_possible_kernel(kernel: Kernel) -> bool:
    return (kernel.num_warps is None or 1 <= kernel.num_warps <= 64) and (
        kernel.shared_bytes is None or 0 <= kernel.shared_bytes <= _MAX_SHARED_BYTES
    )


def _inconsistent(message: str) -> Failure:
    return Failure(Outcome.BROKEN_PROTOCOL, message)


def _check_signature(plan: LaunchPlan, reference: ReferenceSignature) -> Failure | None:
    found = [(view.dtype, view.shape) for view in plan.outputs]
    wanted = list(zip(reference.dtypes, reference.shapes, strict=True))
    if len(found) == len(wanted) and all(f == w for f, w in zip(found, wanted, strict=True)):
        return None
    return Failure(Outcome.WRONG_SIGNATURE, f"returns {_describe(found)}, the reference {_describe(wanted)}")


def _describe(tensors: list[tuple[str, tuple[int, ...]]]) -> str:
    return " and ".join(f"{dtype}{list(shape)}" for dtype, shape in tensors) or "nothing"


def _find_mutation(plan: LaunchPlan) -> Failure | None:
    """A step that stores to what the candidate was given; kernels that were not compiled have the benefit of doubt."""
    for step in plan.steps:
        if isinstance(step, Launch) and not _is_compiled(plan.kernels[step.kernel]):
            continue
        for view in _targets(plan, step):
            buffer = plan.buffers[view.buffer]
            if buffer.kind in (BufferKind.INPUT, BufferKind.PARAMETER):
                return Failure(Outcome.INPUT_MUTATED, buffer.title)
    return None


def _sources(plan: LaunchPlan, step: Step) -> tuple[View, ...]:
    match step:
        case Launch():
            return read_views(step, plan.kernels[step.kernel])
        case Operator():
            return step.inputs
        case Copy():
            return (step.source,)
    return ()


def _targets(plan: LaunchPlan, step: Step) -> tuple[View, ...]:
    match step:
        case Launch():
            return written_views(step, plan.kernels[step.kernel])
        case Operator():
            return step.outputs
    return (step.target,)


class _Flow:
    """For each buffer: the inputs whose values reach it, those that do so through a launch, and who wrote it."""

    def __init__(self, plan: LaunchPlan) -> None:
        self.plan = plan
        size = len(plan.buffers)
        self.carried: list[set[int]] = [set() for _ in range(size)]
        self.computed: list[set[int]] = [set() for _ in range(size)]
        self.launched = [False] * size
        for index, buffer in enumerate(plan.buffers):
            if buffer.kind is BufferKind.INPUT:
                self.carried[index].add(int(buffer.name))

    def follow(self) -> None:
        """Follow values step by step; what PyTorch computes counts as computed, and as launched if a launch fed it."""
        for step in self.plan.steps:
            sources = [view.buffer for view in _sources(self.plan, step)]
            carried = set[int]().union(*(self.carried[source] for source in sources))
            is_computed = isinstance(step, (Launch, Operator))
            computed = carried if is_computed else set[int]().union(*(self.computed[source] for source in sources))
            launched = isinstance(step, Launch) or any(self.launched[source] for source in sources)
            for target in _targets(self.plan, step):
                if not isinstance(step, Launch):
                    self._overwrite(target)
                self.carried[target.buffer] |= carried
                self.computed[target.buffer] |= computed
                self.launched[target.buffer] |= launched

    def _overwrite(self, target: View) -> None:
        """A step that replaces a whole buffer makes what was there before irrelevant."""
        if math.prod(target.shape) >= self.plan.buffers[target.buffer].num_elements:
            self.carried[target.buffer] = set()
            self.computed[target.buffer] = set()
            self.launched[target.buffer] = False


def _check_flow(plan: LaunchPlan, used_inputs: tuple[int, ...]) -> Failure | None:
    flow = _Flow(plan)
    flow.follow()
    for position, view in enumerate(plan.outputs):
        if math.prod(view.shape) and not flow.launched[view.buffer]:
            return Failure(Outcome.OUTPUT_NOT_WRITTEN, f"output {position}")
    reached: set[int] = set()
    for view in plan.outputs:
        reached |= flow.computed[view.buffer]
    unused = [str(position) for position in used_inputs if position not in reached]
    if unused:
        return Failure(Outcome.INPUT_UNUSED, f"input {', '.join(unused)}")
    return None


def read_views(launch: Launch, kernel: Kernel) -> tuple[View, ...]:
    """The views that a launch loads from; every view argument where the kernel was not compiled."""
    return tuple(view for name, view in launch.views.items() if not _is_compiled(kernel) or name in kernel.reads)


def written_views(launch: Launch, kernel: Kernel) -> tuple[View, ...]:
    """The views that a launch stores to; every view argument where the kernel was not compiled."""
    return tuple(view for name, view in launch.views.items() if not _is_compiled(kernel) or name in kernel.writes)


def _is_compiled(kernel: Kernel) -> bool:
    return kernel.binary is not None or bool(kernel.reads) or bool(kernel.writes)
