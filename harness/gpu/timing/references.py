"""A task's reference on the GPU, to be timed beside candidates: eager, with TF32, and by `torch.compile`.

Tasks are trusted, so their source runs in the executor's process. The reference works on inputs and parameters of its
own, drawn from another stream than any candidate's: what it leaves in memory is of no use to a kernel that looks for
it. TF32 is off, as the oracle's contract of float32 has it, but for the figure that says otherwise.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from attrs import frozen

from ....core.config import Compiling
from ....core.seeds import derive
from ....core.serialisation import fingerprint
from ....core.task import Profile
from ...reference.reference import (
    build_model,
    convert,
    draw_inputs,
    load_task,
    one_line,
    randomise,
    torch_dtype,
)
from ...reference.values import place
from ..device.graphs import PageFillers, capture, capture_or_launch, is_graph
from ..device.launcher import Unsupported, is_of_memory
from .protocol import ReferenceSource
from .stopwatch import Lane, count_copies, is_short

_MAX_PREPARED = 16
_MAX_PREPARED_BYTES = 8 << 30
_MAX_CAPTURED_BYTES = 2 << 30
"""What the captures of one reference may take: each has its results and all between in memory of its own."""
_MODES = {"default": None, "max-autotune": "max-autotune-no-cudagraphs"}


@frozen(kw_only=True)
class DrawnReference:
    """A reference's model and inputs before they are on a device."""

    model: torch.nn.Module
    inputs: list[Any]
    dtype: torch.dtype


def draw_reference(source: ReferenceSource) -> DrawnReference:
    """Build the model and draw its parameters and inputs; uses no GPU."""
    task, dtype = source.task, torch_dtype(source.dtype)
    module = load_task(task, Profile.DECLARED)
    model = build_model(task, module, derive(source.seed, "timed reference", "init"))
    generator = torch.Generator().manual_seed(derive(source.seed, "timed reference", "parameters"))
    randomise(model, generator, frozenset(), dtype)
    inputs = draw_inputs(task, module, derive(source.seed, "timed reference", "inputs"))
    return DrawnReference(model=model, inputs=inputs, dtype=dtype)


class Reference:
    """A reference ready to be run: model and inputs on the current device."""

    def __init__(self, drawn: DrawnReference) -> None:
        before = torch.cuda.memory_allocated()
        self._model = convert(drawn.model, "cuda", drawn.dtype)
        self._inputs = [place(value, "cuda", drawn.dtype) for value in drawn.inputs]
        model, inputs = self._model, self._inputs

        def run() -> object:
            with torch.no_grad():
                return model(*inputs)

        self.run: Callable[[], object] = run
        """Puts the reference's own launches on the stream; not bound to this, so that a reference is freed at once."""
        self._num_own_bytes = torch.cuda.memory_allocated() - before
        self._eager = _Captures(run)

    @property
    def num_bytes(self) -> int:
        """What it takes of the device's memory."""
        return self._num_own_bytes + self._eager.num_bytes

    @property
    def is_captured(self) -> bool:
        """Whether graphs of it are replayed; Python launches what cannot be captured."""
        return self._eager.are_graphs

    def eager(self, buffer_copies: int) -> Iterator[Lane]:
        """The reference as it is, captured so often, or less where it takes much memory; one by one."""
        return self._eager.get(buffer_copies)

    def tf32(self, buffer_copies: int) -> tuple[Lane, ...]:
        """The reference with TF32 allowed."""

        def run() -> None:
            with _tf32():
                self.run()

        return tuple(_Captures(run).get(buffer_copies))

    def compiled(self, mode: Compiling, buffer_copies: int) -> tuple[Lane, ...]:
        """The reference by `torch.compile`; raises whatever that raises."""
        _settle_compiler()
        compiled: Any = torch.compile(self._model, mode=_MODES[mode], dynamic=False)

        def run() -> object:
            with torch.no_grad():
                return compiled(*self._inputs)

        run()
        torch.cuda.synchronize()
        return tuple(_Captures(run).get(buffer_copies))


class _Captures:
    """Captures of one piece of work, as many as were asked for so far."""

    def __init__(self, run: Callable[[], object]) -> None:
        self._run = run
        before = torch.cuda.memory_reserved()
        self._works = [capture_or_launch(run)]
        self._is_short: bool | None = None
        self._num_bytes_each = max(1, torch.cuda.memory_reserved() - before)
        self.num_bytes = self._num_bytes_each
        """What captures take, by what the allocator holds: it counts nothing in a graph's own memory as allocated."""

    @property
    def are_graphs(self) -> bool:
        """Whether the work could be captured."""
        return is_graph(self._works[0])

    def get(self, buffer_copies: int) -> Iterator[Lane]:
        """So many captures, or as many as there is memory to spare for; of short work in pages of their own."""
        affordable = max(1, _MAX_CAPTURED_BYTES // self._num_bytes_each) if self.are_graphs else 1
        if self._is_short is None:
            self._is_short = is_short(self._works[0])
        wanted = min(count_copies(buffer_copies, self._is_short), affordable)
        fillers = PageFillers() if self._is_short else None
        for number in range(wanted):
            if number == len(self._works):
                if fillers is not None:
                    fillers.add()
                before = torch.cuda.memory_reserved()
                self._works.append(capture(self._run, is_first=False))
                self._works[-1]()  # until then the driver keeps nothing of it on the device
                self.num_bytes += torch.cuda.memory_reserved() - before
            yield Lane(work=self._works[number])


def load_compiler() -> None:
    """Have `torch.compile` load all that it needs, by something that hardly uses the GPU."""
    _settle_compiler()

    def add(values: torch.Tensor) -> torch.Tensor:
        return values + 1.0

    compiled: Any = torch.compile(add, dynamic=False)
    compiled(torch.zeros(4, device="cuda"))
    torch.cuda.synchronize()


def _settle_compiler() -> None:
    import torch._inductor.config as inductor

    inductor.compile_threads = 1  # this process holds a GPU and starts no others


def forbid_tf32() -> None:
    """Matrix products in float32 as such, from now on."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


@contextmanager
def _tf32() -> Iterator[None]:
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    try:
        yield
    finally:
        forbid_tf32()


class References:
    """Prepared references, the last ones used."""

    def __init__(self) -> None:
        self._held: OrderedDict[str, Reference] = OrderedDict()
        self._drawn: tuple[str, DrawnReference] | None = None

    def draw(self, source: ReferenceSource) -> None:
        """Draw what `get` will be asked for next, unless it is ready; raises Unsupported where it cannot be."""
        key = fingerprint(source)
        if key not in self._held:
            with _failing():
                self._drawn = key, draw_reference(source)

    def get(self, source: ReferenceSource) -> Reference:
        """The reference of a source; raises Unsupported where it does not run here."""
        key = fingerprint(source)
        if key not in self._held:
            forbid_tf32()
            drawn, self._drawn = self._drawn, None
            with _failing():
                is_same = drawn is not None and drawn[0] == key
                self._held[key] = Reference(drawn[1] if drawn is not None and is_same else draw_reference(source))
        self._held.move_to_end(key)
        while len(self._held) > 1 and self._is_too_much():
            self._held.popitem(last=False)
        return self._held[key]

    def _is_too_much(self) -> bool:
        return len(self._held) > _MAX_PREPARED or sum(r.num_bytes for r in self._held.values()) > _MAX_PREPARED_BYTES

    def clear(self) -> None:
        self._held.clear()


@contextmanager
def _failing() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if is_of_memory(error):
            raise
        raise Unsupported(f"the reference cannot be timed: {one_line(error)}"[:300]) from error
