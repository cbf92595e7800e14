"""Call a model as its users do: other modes, settings and objects than those of the passes that are judged.

Host code can ask in which circumstances it runs, and do the work only in those of a recording. So forward is called
again, on new tensors, in circumstances that a user's process has, and must do the same. A few passes cover them: each
circumstance is met, and which of them are met together is drawn. Settings that would change what PyTorch itself does
(where memory is filled, which dtype numbers have) are not made: what asks for them is told otherwise.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from attrs import evolve, field, frozen

from ....core.outcome import Outcome
from ....core.plan import Buffer, BufferKind, LaunchPlan
from ....core.run import TensorSpec
from ..wire import RecordRequest
from .refusal import Refusal

NUM_PASSES = 4
_PATTERNS = ((0, 0, 1, 1), (0, 1, 0, 1), (1, 0, 0, 1), (0, 1, 1, 0), (1, 0, 1, 0), (1, 1, 0, 0))
"""Whether a circumstance is met in each of the passes; two with different patterns are met alone and together."""


@frozen(kw_only=True)
class Circumstance:
    """Something that a user's call may have and a recording has not; `enter` is handed model and inputs."""

    name: str
    enter: Callable[[torch.nn.Module, list[Any]], contextlib.AbstractContextManager[Any]]
    changes_reference: bool = False
    """Whether some references return something else in it, so that each is asked first."""
    only_pass: int | None = None
    """The one pass that meets it, of the modes that exclude each other; None where passes are drawn."""


_told: dict[str, Any] = {}
"""Answers that queries have now, by the queries' full names."""
_asked: dict[str, None] = {}
"""Those of them that were given."""
_OWNERS = (torch, torch.compiler, torch.autograd)
_PYTORCH = os.path.dirname(torch.__file__)
"""Where the code lies that makes tensors by what it is told."""


def _is_asked_by_pytorch() -> bool:
    return sys._getframe(2).f_code.co_filename.startswith(_PYTORCH)


def _ask(told: dict[str, Any]) -> Circumstance:
    """Return the circumstance that queries have these answers, by their full names."""

    @contextlib.contextmanager
    def tell(model: torch.nn.Module, inputs: list[Any]) -> Iterator[None]:
        _told.update(told)
        try:
            yield
        finally:
            for key in told:
                del _told[key]

    return Circumstance(name="", enter=tell)


def take_asked() -> list[str]:
    """Return what host code was told, in words, since this was last asked."""
    told = {key: _told[key] for key in _asked if key in _told}
    _asked.clear()
    plain = {key: answer if isinstance(answer, (int, torch.dtype)) else "set" for key, answer in told.items()}
    return [f"where {key} is {answer}" for key, answer in plain.items()]


def _let_tell(owner: Any, name: str) -> str:
    """Let a query without arguments be answered otherwise, and return its full name."""
    function, key = getattr(owner, name), f"{owner.__name__}.{name}()"

    def find(*args: Any, **kwargs: Any) -> Any:
        if key not in _told or args or kwargs or _is_asked_by_pytorch():
            return function(*args, **kwargs)
        _asked[key] = None
        return _told[key]

    setattr(owner, name, find)
    return key


def _let_tell_of_tensors(name: str) -> str:
    """The same for what a tensor says of itself."""
    known, key = inspect.getattr_static(torch.Tensor, name), f"a tensor's {name}"
    read = known if callable(known) else known.__get__

    def find(tensor: torch.Tensor) -> Any:
        if key not in _told or _is_asked_by_pytorch():
            return read(tensor)
        _asked[key] = None
        return _told[key]

    setattr(torch.Tensor, name, find if callable(known) else property(find, getattr(known, "__set__", None)))
    return key


def _find_switches(owner: Any) -> dict[str, bool]:
    """Return the other answers of a module's queries that are on or off in this process."""
    found = {}
    for name in dir(owner):
        if not name.startswith(("is_", "are_")) or name.endswith("_available"):
            continue
        with warnings.catch_warnings(), contextlib.suppress(Exception):
            warnings.simplefilter("ignore")
            answer = getattr(owner, name)()
            if isinstance(answer, bool):
                found[_let_tell(owner, name)] = not answer
    return found


def _find_flags() -> list[tuple[type, str, Any]]:
    """Return the flags of PyTorch's backends that are on or off: class, name, and how to read it."""
    modules = (torch.backends.cudnn, torch.backends.mkldnn)
    flags = [(type(module), name, known) for module in modules for name, known in vars(type(module)).items()]
    found = [(owner, name, known.getter) for owner, name, known in flags if hasattr(known, "getter")]
    products = type(torch.backends.cuda.matmul)
    read = products.__getattr__
    names = ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
    return found + [(products, name, functools.partial(read, torch.backends.cuda.matmul, name)) for name in names]


def let_choose_settings(choose: Callable[[str, Sequence[Any]], Any]) -> None:
    """Let the judge choose what host code reads of settings by which PyTorch rounds, or chooses algorithms."""

    def install(owner: Any, name: str, key: str, read: Callable[[], Any], others: Sequence[Any], setter: Any) -> None:
        def find(*args: Any) -> Any:
            now = read()
            return now if _is_asked_by_pytorch() else choose(key, (now, *(each for each in others if each != now)))

        setattr(owner, name, property(find, setter) if isinstance(owner, type) else find)

    for owner, name, read in _find_flags():
        if isinstance(read(), bool):
            known = inspect.getattr_static(owner, name, None)
            setter = getattr(known, "__set__", None)
            install(owner, name, f"{owner.__module__}.{name}", read, (True, False), setter)
    precision = torch.get_float32_matmul_precision
    install(torch, precision.__name__, f"torch.{precision.__name__}()", precision, ("highest", "high"), None)


@contextlib.contextmanager
def _in_evaluation(model: torch.nn.Module, inputs: list[Any]) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.train(not model.training)
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


@contextlib.contextmanager
def _under_autocast(model: torch.nn.Module, inputs: list[Any]) -> Iterator[None]:
    torch.set_autocast_enabled("cuda", True)
    try:
        yield
    finally:
        torch.set_autocast_enabled("cuda", False)


@contextlib.contextmanager
def _with_gradients(model: torch.nn.Module, inputs: list[Any]) -> Iterator[None]:
    """Gradients are recorded, inputs are parameters too, and inputs and parameters have some from an earlier step."""
    for index, value in enumerate(inputs):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            inputs[index] = torch.nn.Parameter(value)
            inputs[index].grad = torch.empty_like(value)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad and parameter.grad is None]
    for parameter in trained:
        parameter.grad = torch.empty_like(parameter)
    try:
        with torch.enable_grad():
            yield
    finally:
        for parameter in trained:
            parameter.grad = None


def list_circumstances() -> tuple[Circumstance, ...]:
    """Return the table; called once in a process, before a candidate is imported.

    What PyTorch's own queries say of its modes is told and not made: operators of several parts are not taken apart in
    inference mode. Which queries there are is found and not listed. So is told what tensors say of earlier layers.
    """
    switches = {key: told for owner in _OWNERS for key, told in _find_switches(owner).items()}
    node = torch.zeros((), requires_grad=True).exp().grad_fn
    earlier = {
        _let_tell_of_tensors(name): told
        for name, told in (("is_leaf", False), ("grad_fn", node), ("is_inference", True))
    }
    return (
        Circumstance(name="in evaluation mode", enter=_in_evaluation, changes_reference=True),
        Circumstance(name="under autocast", enter=_under_autocast),
        _ask({_let_tell(torch, "get_num_threads"): 8, _let_tell(torch, "get_num_interop_threads"): 8}),
        _ask({_let_tell(torch, "get_default_dtype"): torch.bfloat16}),
        _ask({_let_tell(torch.cuda, "is_current_stream_capturing"): True, _let_tell(torch.cuda, "device_count"): 8}),
        _ask({_let_tell(torch, "get_default_device"): torch.device("cuda")}),
        Circumstance(name="with gradients", enter=_with_gradients, only_pass=0),
        evolve(_ask({**switches, **earlier}), only_pass=NUM_PASSES - 1),
    )


def draw_passes(
    table: tuple[Circumstance, ...], seed: str, is_same_in_evaluation: bool
) -> list[tuple[Circumstance, ...]]:
    """Return the circumstances of each further pass.

    Those that change what this task's reference returns are left out, and otherwise met alone too, since every user
    evaluates.
    """
    draw = random.Random(seed)
    fair = [each for each in table if is_same_in_evaluation or not each.changes_reference]
    drawn = [each for each in fair if each.only_pass is None]
    patterns = dict(zip(drawn, draw.sample(_PATTERNS, len(_PATTERNS)), strict=False))
    passes = [
        tuple(each for each in fair if (patterns[each][number] if each in patterns else each.only_pass == number))
        for number in range(NUM_PASSES)
    ]
    return [(each,) for each in fair if each.changes_reference] + passes


@contextlib.contextmanager
def met(circumstances: tuple[Circumstance, ...], model: torch.nn.Module, inputs: list[Any]) -> Iterator[None]:
    """Call what is inside in these circumstances."""
    with contextlib.ExitStack() as stack:
        for each in circumstances:
            stack.enter_context(each.enter(model, inputs))
        yield


@frozen(kw_only=True)
class EarlierCalls:
    """Earlier calls of one child: what they recorded, and the memory that they returned."""

    table: tuple[Circumstance, ...]
    recorded: list[tuple[RecordRequest, LaunchPlan]] = field(factory=list)
    returned: dict[int, torch.UntypedStorage] = field(factory=dict)
    """By identity; the storage too, so that no other one has its identity."""

    def note_results(self, result: Any, plan: LaunchPlan) -> None:
        """Note the memory of a call's results; raises where an earlier call has returned it."""
        tensors = [result] if isinstance(result, torch.Tensor) else list(result)
        for tensor, view in zip(tensors, plan.outputs, strict=True):
            if plan.buffers[view.buffer].kind is not BufferKind.TEMPORARY:
                continue
            with torch._C.DisableTorchFunction():
                storage = tensor.untyped_storage()
            if storage._cdata in self.returned:
                message = "forward returns memory that an earlier call has returned, whose result may be in use"
                raise Refusal(Outcome.NOT_REPRODUCIBLE, message)
        for tensor in tensors:
            with torch._C.DisableTorchFunction():
                storage = tensor.untyped_storage()
            self.returned[storage._cdata] = storage

    def find_larger(self, request: RecordRequest) -> tuple[RecordRequest, LaunchPlan] | None:
        """Return the latest recording of the same model on larger inputs."""
        for other, plan in reversed(self.recorded):
            is_same_model = (other.init_json, other.seed, other.dtype) == (
                request.init_json,
                request.seed,
                request.dtype,
            )
            if is_same_model and _num_elements(other) > _num_elements(request):
                return other, plan
        return None


def _num_elements(request: RecordRequest) -> int:
    return sum(math.prod(spec.shape) for spec in request.inputs if isinstance(spec, TensorSpec))


def without_origins(plan: LaunchPlan) -> LaunchPlan:
    """Return a plan without what a model of other weights, or a workspace that an earlier call made, has otherwise."""

    def strip(buffer: Buffer) -> Buffer:
        if buffer.kind is BufferKind.TEMPORARY:
            return evolve(buffer, num_elements=0)
        return evolve(buffer, blob=None) if buffer.name else buffer

    return evolve(plan, buffers=tuple(map(strip, plan.buffers)))
