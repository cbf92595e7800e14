"""A task's reference program, loaded and built in the judge's process.

Tasks are trusted input: their source is executed here. Whatever is wrong with one is a `TaskError` that names the
task, never a verdict about a candidate. Sizes and dtypes are found with fake tensors, so that a task of any declared
size costs no memory.
"""

from __future__ import annotations

import itertools
import linecache
import logging
import math
import sys
import threading
import types
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from attrs import evolve
from torch._subclasses.fake_tensor import FakeTensorMode

from ...core.run import InitArgument, TensorSpec
from ...core.serialisation import write_arguments
from ...core.task import Constants, Profile, Task
from ...core.text.named_sizes import with_constants
from ...stages.transforms import is_sorted, round_values
from ..errors import TaskError
from ..torch_start import import_torch
from .products import UncomputedProducts

import_torch()  # references run on tensors without values, the first of which would import Dynamo
RAISED = (Exception, SystemExit)
"""What a program may end with; a script that calls `exit()` is no end of the command."""
_SLIGHT = 1e-3
"""Parameters whose largest value is less add next to nothing."""
_LEAST_RISING = 3
"""Two elements of a parameter rise as often as not."""
_NUMBERS = itertools.count()

# torch's default generator is process-wide state: whoever seeds it must be alone
_SEEDED = threading.RLock()


class _Tracing(threading.local):
    """Whether this thread runs a reference on fake tensors."""

    depth = 0


_TRACING = _Tracing()
# torch logs a traceback of what a reference raises on fake tensors, and the TaskError says it in a line; only of ours,
# since a trainer that takes the verifier as its reward has fake tensors of its own
logging.getLogger("torch._subclasses.fake_tensor").addFilter(lambda _: not _TRACING.depth)


@contextmanager
def without_tracebacks() -> Iterator[None]:
    """What this thread does on fake tensors fails without torch's logging it."""
    _TRACING.depth += 1
    try:
        yield
    finally:
        _TRACING.depth -= 1


def torch_dtype(name: str) -> torch.dtype:
    """The torch dtype with this name."""
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name} is no dtype")
    return dtype


def dtype_name(tensor: torch.Tensor) -> str:
    """The name of a tensor's dtype, such as "float32"."""
    return str(tensor.dtype).removeprefix("torch.")


def load_task(task: Task, profile: Profile) -> types.ModuleType:
    """The reference program as a module, with the constants of `profile`; raises TaskError.

    What it prints is dropped: it runs a hundred times, and stdout is the command's.
    """
    number = next(_NUMBERS)
    module, file = types.ModuleType(f"tritonrl_task_{number}"), f"<{task.task_id} {number}>"
    vars(module)["print"] = _drop
    with blaming(task, "the reference does not import"):
        source = with_constants(task.source, task.constants(profile))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # this file's own future imports are not the program's
            code = compile(source, file, "exec", dont_inherit=True)
        with _findable(module, file, source), _settings_kept(task):
            exec(code, vars(module))
    for name in ("Model", "get_inputs"):
        if not hasattr(module, name):
            raise TaskError(f"{task.task_id}: the reference defines no {name}")
    return module


def _drop(*_: object, **__: object) -> None:
    """In place of `print`."""


@contextmanager
def _findable(module: types.ModuleType, file: str, source: str) -> Iterator[None]:
    """The module where data classes look for it, and its text where TorchScript does, while it is imported."""
    sys.modules[module.__name__] = module
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    try:
        yield
    finally:
        del sys.modules[module.__name__]
        linecache.cache.pop(file, None)


@contextmanager
def _settings_kept(task: Task) -> Iterator[None]:
    """PyTorch's default dtype, which all tasks share, as it was; raises TaskError where the program changed it."""
    before = torch.get_default_dtype()
    try:
        yield
    finally:
        after = torch.get_default_dtype()
        if after != before:
            torch.set_default_dtype(before)
    if after != before:
        raise TaskError(f"{task.task_id}: the program sets PyTorch's default dtype, which other tasks share")


def one_line(error: BaseException) -> str:
    """An exception's class and the first line of its message."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


@contextmanager
def blaming(task: Task, what: str, *passing: type[BaseException]) -> Iterator[None]:
    """Whatever is raised as the task's fault, in a line that says what failed; but for what passes as it is."""
    known: tuple[type[BaseException], ...] = (TaskError, *passing)
    try:
        yield
    except known:
        raise
    except RAISED as error:
        raise TaskError(f"{task.task_id}: {what}: {one_line(error)}") from error


@contextmanager
def seeded(seed: int | None) -> Iterator[None]:
    """Torch's default CPU generator at `seed`, put back afterwards; None leaves it alone (fake tensors need none)."""
    if seed is None:
        yield
        return
    with _SEEDED:
        state = torch.get_rng_state()
        try:
            # torch.manual_seed would seed every device too, and keep the stack where one is not in use yet
            torch.default_generator.manual_seed(seed)
            yield
        finally:
            torch.set_rng_state(state)


@contextmanager
def alone_with_generators() -> Iterator[None]:
    """No other thread draws meanwhile."""
    with _SEEDED:
        yield


def init_arguments(task: Task, module: types.ModuleType) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments of both models' constructors."""
    with blaming(task, "get_init_inputs() failed"):
        made = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
    if isinstance(made, dict):
        return [], made
    if isinstance(made, list) and [type(part) for part in made] in ([list, dict], [tuple, dict]):
        return list(made[0]), made[1]  # KernelBook's form
    if isinstance(made, (list, tuple)):
        return list(made), {}
    raise TaskError(f"{task.task_id}: get_init_inputs() must return a list or a dict")


def describe_input(task: Task, value: Any, dtype: str) -> TensorSpec | InitArgument:
    """What a candidate is told of an input: a tensor's shape, dtype and place in memory, or a plain value."""
    if isinstance(value, torch.Tensor):
        spec = TensorSpec(shape=tuple(value.shape), dtype=dtype if is_floating(value) else dtype_name(value))
        storage_size = count_stored(value)
        if value.is_contiguous() and storage_size == value.numel():
            return spec
        offset = int(value.storage_offset())
        return evolve(spec, stride=tuple(value.stride()), offset=offset, storage_size=storage_size)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TaskError(f"{task.task_id}: get_inputs() returns a {type(value).__name__}, which is no tensor or number")


def describe_init(task: Task, module: types.ModuleType) -> str:
    """The constructor's arguments as JSON; raises TaskError where they are no plain values."""
    args, kwargs = init_arguments(task, module)
    try:
        return write_arguments(args, kwargs)
    except (TypeError, ValueError) as error:
        raise TaskError(f"{task.task_id}: get_init_inputs() must return plain numbers or text: {error}") from error


def build_model(task: Task, module: types.ModuleType, seed: int | None) -> torch.nn.Module:
    """`Model(*init)` under a seed."""
    args, kwargs = init_arguments(task, module)
    with blaming(task, "building Model failed"), seeded(seed), _settings_kept(task):
        model = module.Model(*args, **kwargs)
    if not isinstance(model, torch.nn.Module):
        raise TaskError(f"{task.task_id}: Model is no torch.nn.Module")
    return model


def draw_inputs(task: Task, module: types.ModuleType, seed: int | None) -> list[Any]:
    """`get_inputs()` under a seed."""
    with (
        blaming(task, "get_inputs() failed", torch.cuda.OutOfMemoryError),
        seeded(seed),
        without_tracebacks(),
        _settings_kept(task),
    ):
        made = module.get_inputs()
        # these can be iterated over, too
        is_one = isinstance(made, (torch.Tensor, dict, str))
        inputs = [] if is_one else list(made)
    if is_one:
        kind = "tensor" if isinstance(made, torch.Tensor) else type(made).__name__
        raise TaskError(f"{task.task_id}: get_inputs() must return a list of arguments, not one {kind}")
    if not any(isinstance(value, torch.Tensor) for value in inputs):
        kinds = ", ".join(dict.fromkeys(type(value).__name__ for value in inputs)) or "nothing"
        raise TaskError(f"{task.task_id}: get_inputs() returns no tensor as an argument of its own, but {kinds}")
    return inputs


def call_model(
    task: Task, model: torch.nn.Module, inputs: list[Any], is_last: bool = False
) -> tuple[torch.Tensor, ...]:
    """The reference's results as a tuple; inputs are cloned, as some references work in place, but for a last call.

    A GPU's lack of memory is the task's fault nowhere, and passes.
    """
    cloned = [value.clone() if isinstance(value, torch.Tensor) and not is_last else value for value in inputs]
    with blaming(task, "running the reference failed", torch.cuda.OutOfMemoryError), torch.no_grad():
        result = model(*cloned)
    outputs = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if not outputs or not all(isinstance(output, torch.Tensor) for output in outputs):
        raise TaskError(f"{task.task_id}: forward must return a tensor or a tuple of tensors")
    return outputs


def equal_results(left: tuple[torch.Tensor, ...], right: tuple[torch.Tensor, ...]) -> bool:
    """Whether two calls returned the same values."""
    return len(left) == len(right) and all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def runs_with(task: Task, constants: Constants) -> bool:
    """Whether the reference runs with these constants, and no result is empty, so that there is something to launch.

    Real values, since shapes alone do not show every refusal; those of products only where it refuses zeros for them.
    """
    with UncomputedProducts() as products:
        is_accepted = _accepts(task, constants)
    return is_accepted or (products.num_left_out > 0 and _accepts(task, constants))


def _accepts(task: Task, constants: Constants) -> bool:
    sized = evolve(task, tiny=constants)
    try:
        module = load_task(sized, Profile.TINY)
        outputs = call_model(sized, build_model(sized, module, 0), draw_inputs(sized, module, 0))
    except TaskError:
        return False
    return all(not isinstance(output, torch.Tensor) or output.numel() > 0 for output in outputs)


@contextmanager
def fake_reference(task: Task, profile: Profile, dtype: str) -> Iterator[tuple[torch.nn.Module, list[Any]]]:
    """The reference and its inputs without values, in `dtype`; nothing of the declared sizes is allocated."""
    module = load_task(task, profile)
    with without_tracebacks(), FakeTensorMode(allow_non_fake_inputs=True):
        wanted = torch_dtype(dtype)
        model = build_model(task, module, None)
        _convert(model, wanted)
        drawn = draw_inputs(task, module, None)
        yield model, [value.to(wanted) if is_floating(value) else value for value in drawn]


def _convert(model: torch.nn.Module, dtype: torch.dtype) -> None:
    """`convert(model, dtype)`, which fake parameters refuse."""
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None and parameter.is_floating_point():
                module._parameters[name] = torch.nn.Parameter(parameter.detach().to(dtype), requires_grad=False)
        for name, buffer in list(module._buffers.items()):
            if buffer is not None and buffer.is_floating_point():
                module._buffers[name] = buffer.to(dtype)
        vars(module).update({name: value.to(dtype) for name, value in vars(module).items() if is_floating(value)})


def convert(model: torch.nn.Module, *where: Any) -> torch.nn.Module:
    """`model.to(*where)`, with the floating-point tensors that its modules keep beside parameters and buffers."""
    model.to(*where)
    for module in model.modules():
        vars(module).update({name: value.to(*where) for name, value in vars(module).items() if is_floating(value)})
    return model


def count_stored(tensor: torch.Tensor) -> int:
    """The number of elements that a tensor's storage holds."""
    return int(tensor.untyped_storage().nbytes()) // tensor.element_size()


def is_floating(value: object) -> bool:
    """Whether a value is a floating-point tensor."""
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def to_double(value: Any) -> Any:
    """A floating tensor in float64; anything else as it is."""
    return value.double() if is_floating(value) else value


def find_drawn(model: torch.nn.Module) -> frozenset[str]:
    """Return the names of parameters and buffers that construction has not made constant."""
    return frozenset(name for name, tensor in model.state_dict().items() if (tensor != tensor.flatten()[:1]).any())


def randomise(
    model: torch.nn.Module,
    generator: torch.Generator,
    seeded_names: Collection[str],
    dtype: torch.dtype,
    drawn: Collection[str] = (),
) -> None:
    """Give parameters and buffers fresh values of the scale that construction chose, exact in `dtype`.

    Constant ones (norm weights, biases, running statistics) become values around that constant. Of the others those
    in `seeded_names` stay as constructed. One of a single element is constant if it is not among `drawn`. What begins
    as next to nothing, such as the scale of a residual branch, has the scale of what it is trained to: a kernel that
    leaves it out would be right otherwise. What rises along its rows, such as the edges of buckets, does so still.
    """
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if not tensor.is_floating_point() or tensor.numel() == 0:
                continue
            fresh = torch.rand(tensor.shape, generator=generator, dtype=torch.float64, device=generator.device)
            low, high = float(tensor.min()), float(tensor.max())
            is_slight = max(abs(low), abs(high)) < _SLIGHT
            if low == high and not (name in seeded_names and name in drawn):
                # a variance must stay positive; an added constant of either sign is as good as another
                positive = low > 0.0 or "var" in name
                fresh = (1.0 if is_slight else low) * (0.5 + fresh) if positive else low + (fresh - 0.5)
            elif name in seeded_names:
                fresh = tensor.double()
            else:
                spread = 1.0 if is_slight else float(tensor.double().std()) * math.sqrt(12.0)
                fresh.sub_(0.5).mul_(spread).add_(float(tensor.double().mean()))  # in place, as it may be gigabytes
                if _rises(tensor):
                    fresh = fresh.sort(dim=-1).values
            tensor.copy_(fresh.to(dtype).to(tensor.dtype))


def _rises(tensor: torch.Tensor) -> bool:
    """Whether rows rise, by chance too where they are short; of gigabytes on a GPU the first row tells that not."""
    first = tensor[(0,) * (tensor.ndim - 1)]
    return all(is_sorted(part.double().cpu().numpy(), _LEAST_RISING) for part in (first, tensor))


def draw_signs(model: torch.nn.Module, seeded_names: Collection[str], generator: torch.Generator) -> None:
    """Negate half of the elements of floating-point parameters, and one at least; seeded ones stay as constructed."""
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if tensor.is_floating_point() and name not in seeded_names:
                order = torch.randperm(tensor.numel(), generator=generator).reshape(tensor.shape)
                tensor.copy_(torch.where(2 * order < tensor.numel(), -tensor, tensor))


def round_parameters(model: torch.nn.Module, dtype: str) -> None:
    """Round floating-point parameters and buffers to as many bits as a narrower dtype has."""
    with torch.no_grad():
        for tensor in model.state_dict().values():
            if tensor.is_floating_point():
                tensor.copy_(torch.from_numpy(round_values(tensor.double().numpy(), dtype)))
