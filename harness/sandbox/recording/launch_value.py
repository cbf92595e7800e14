"""What a launch gives back, and what a kernel keeps of its launches.

On a GPU a launch returns the compiled kernel, always the same one for the same specialisation, and a kernel keeps those
that it has. Recorded, most launches compile nothing. So host code gets an object of the right class, which it may keep,
compare and ask for its truth; whoever looks into it, or into what a kernel keeps, is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton.compiler import CompiledKernel
from triton.runtime.jit import JITFunction

from ....core.outcome import Outcome
from .launches import LaunchRecorder, Refusal

_KEPT = "device_caches"
"""A kernel's compiled ones, by device."""


class LaunchValues:
    """The values of a recording's launches."""

    def __init__(self, recorder: LaunchRecorder) -> None:
        self._recorder = recorder
        self._made: dict[tuple[Any, ...], Any] = {}
        self._is_compiling = False

    def install(self) -> None:
        """Interpose for the rest of this process; after the recorder, whose launches give nothing back."""
        values, launch = self, JITFunction.run

        def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            launch(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            return values._give(kernel, args, kwargs)

        JITFunction.run = run
        JITFunction.device_caches = property(self._get_kept, _keep)
        CompiledKernel.__getattr__ = _look_into
        self._recorder.compile_kernel = self._compiling(self._recorder.compile_kernel)

    def forget(self) -> None:
        """Drop what the warm-up left."""
        self._made.clear()

    def _give(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        named = [*enumerate(args), *kwargs.items()]
        key = (id(kernel), *((name, _kind(value)) for name, value in named))
        return self._made.setdefault(key, object.__new__(CompiledKernel))

    def _compiling(self, compile_kernel: Callable[..., Any]) -> Callable[..., Any]:
        def compile_it(*args: Any, **kwargs: Any) -> Any:
            before, self._is_compiling = self._is_compiling, True
            try:
                return compile_kernel(*args, **kwargs)
            finally:
                self._is_compiling = before

        return compile_it

    def _get_kept(self, kernel: Any) -> Any:
        if not self._is_compiling:
            raise Refusal(Outcome.UNSUPPORTED, f"host code reads a kernel's {_KEPT}, which takes a GPU to know")
        return kernel.__dict__[_KEPT]


def _keep(kernel: Any, value: Any) -> None:
    kernel.__dict__[_KEPT] = value


def _kind(value: Any) -> str:
    """What of an argument a specialisation may depend on, roughly: more values are one kernel than here."""
    dtype = getattr(value, "dtype", None)
    return repr(value) if dtype is None else str(dtype)


def _look_into(kernel: Any, name: str) -> Any:
    """What a compiled kernel is asked for that it has not; one that was given for a launch has nothing."""
    if kernel.__dict__:
        raise AttributeError(f"{type(kernel).__name__!r} object has no attribute {name!r}")
    raise Refusal(Outcome.UNSUPPORTED, f"host code asks for {name} of a launch's value, which cannot be recorded")
