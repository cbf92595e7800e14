"""Leave out of compiling what nobody will load: most of its time.

How far a child compiles is a `Depth`. Whether a kernel compiles Triton's own passes say, up to the layouts of its
values and the shared memory that they take; that far children go that run host code. The audit also has LLVM make PTX,
once, from the text alone (`recompile`), without LLVM's optimiser, which refuses nothing; or all code, where a GPU loads
it. The GPU IR takes the place of the loadable code, and its hash that of the code's. All is done where LLVM or `ptxas`
is the first to read what the candidate wrote (inline assembly, options of its own), and where somebody asks for
registers. What remains unknown without a GPU is an error of `ptxas` in PTX that LLVM wrote, and how long it takes; to
training also what LLVM refuses of what Triton's passes accept.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

from attrs import define, frozen
from triton import knobs
from triton._C.libtriton import ir
from triton.backends.nvidia import compiler
from triton.compiler import compiler as pipeline
from triton.runtime.cache import CacheManager

from ..wire import Depth
from .compiled_kernel import without_locations
from .known_code import KnownCode
from .target import find_registers

_ASM_OPERATION = "tt.elementwise_inline_asm"
_WITHOUT_OPTIMISER = "DISABLE_LLVM_OPT"
GPU_IR = "gpu_ir_sha256"
"""What `Kernel.binary` would be at a lesser depth, beside Triton's metadata of the code."""
_KEPT = "device_caches"
"""What a kernel keeps of its compilations."""
_UNUSED = (".source", ".llir", ".ptx")
"""Results of stages that nobody asks for after the next one."""
_ENTRY_POINT = re.compile(r"tt\.func public @\"?([^\"(]+)")


class _Allocated(Exception):
    """Ends Triton's lowering where the memory of a kernel is known."""


@define
class _StopAtLowering:
    """Runs the passes before the lowering to LLVM, in the place that Triton keeps for instruments, and ends there."""

    module: Any

    def load_dialects(self, context: Any) -> None:
        """Load none."""

    def patch(self, place: str, passes: Any, context: Any) -> None:
        """Run what is to be run before `place`."""
        if place == "ttgpuir_to_llvmir":
            passes.run(self.module, "make_llir")
            raise _Allocated


@frozen
class _Text:
    """Stands for a path: what Triton would write to a file and read again, kept in memory."""

    suffix: str
    held: bytes

    def read_bytes(self) -> bytes:
        """Return what would have been written."""
        return self.held

    def read_text(self) -> str:
        """Return it as text."""
        return self.held.decode()


class _InMemory(CacheManager):  # type: ignore[misc]
    """Keeps what one process compiles, which nobody else reads: files would take 2 ms."""

    groups: ClassVar[dict[tuple[str, str], dict[str, Any]]] = {}

    def __init__(self, key: str) -> None:
        self._key = key

    def get_file(self, filename: str) -> None:
        """Return that there is no file."""

    def put(self, data: Any, filename: str, binary: bool = True) -> Any:
        """Keep a stage's result, if anybody asks for it later."""
        suffix = os.path.splitext(filename)[1]
        if suffix in _UNUSED:
            return _Text(suffix, b"")
        return _Text(suffix, data if isinstance(data, bytes) else str(data).encode())

    def get_group(self, filename: str) -> dict[str, Any] | None:
        """Return a kernel's results by their files' names, if it was compiled before."""
        return self.groups.get((self._key, filename))

    def put_group(self, filename: str, group: dict[str, Any]) -> None:
        """Keep a kernel's results."""
        self.groups[self._key, filename] = group


class Assembler:
    """Stands before Triton's stages, and says how far code is compiled."""

    def __init__(self) -> None:
        self.known_code = KnownCode()
        self._depth = Depth.CODE
        self._text = ""
        self._code: bytes | None = None
        self._checked: set[str] = set()

    def install(self) -> None:
        """Interpose for the rest of this process."""
        assembler, backend_class = self, compiler.CUDABackend
        lower, write, assemble = backend_class.make_llir, backend_class.make_ptx, backend_class.make_cubin

        def make_llir(backend: Any, src: Any, metadata: Any, options: Any, capability: Any) -> str:
            assembler._text = without_locations(str(src))
            if assembler._depth is Depth.CODE:
                metadata[GPU_IR] = hashlib.sha256(assembler._text.encode()).hexdigest()
                assembler._code = assembler.known_code.find(assembler._text, metadata)
                if assembler._code is not None:
                    return ""
            if assembler._depth is not Depth.LAYOUTS:
                return str(lower(backend, src, metadata, options, capability))
            backend_class.instrumentation = _StopAtLowering(src)
            try:
                lower(backend, src, metadata, options, capability)
            except _Allocated:
                pass
            finally:
                backend_class.instrumentation = None
            # a kernel of specialised warps has more of them than was asked for
            metadata["num_warps"] = src.get_int_attr("ttg.total-num-warps") or metadata["num_warps"]
            metadata["shared"] = src.get_int_attr("ttg.shared")
            metadata["global_scratch_size"] = src.get_int_attr("ttg.global_scratch_memory_size")
            return assembler._text

        def make_ptx(backend: Any, src: str, metadata: Any, opt: Any, capability: Any) -> str:
            if assembler._depth is Depth.CODE and assembler._code is not None:
                return ""
            if assembler._depth is not Depth.LAYOUTS:
                return str(write(backend, src, metadata, opt, capability))
            (metadata["name"],) = _ENTRY_POINT.findall(src)
            return src

        def make_cubin(backend: Any, src: str, metadata: Any, opt: Any, capability: Any) -> bytes:
            if assembler._depth is not Depth.CODE:
                return assembler._text.encode()
            if assembler._code is not None:
                return assembler._code
            code: bytes = assemble(backend, src, metadata, opt, capability)
            assembler.known_code.keep(metadata, code)
            return code

        # making one and loading its dialects takes 5 ms, most of it a child's first touch of memory
        context = ir.context()
        pipeline.ir = SimpleNamespace(**{**vars(ir), "context": lambda: context})
        knobs.cache.manager_class, pipeline.Path = _InMemory, lambda held: held
        backend_class.make_llir, backend_class.make_ptx, backend_class.make_cubin = make_llir, make_ptx, make_cubin

    def begin(self, depth: Depth) -> None:
        """Compile so far from now on."""
        self._depth = depth
        os.environ.pop(_WITHOUT_OPTIMISER, None)
        if depth is not Depth.CODE:
            os.environ[_WITHOUT_OPTIMISER] = "1"

    def forget(self) -> None:
        """Drop what the warm-up left."""
        _InMemory.groups.clear()

    def check(self, kernel: Any, made: Any, make: Callable[[], Any]) -> None:
        """Do it all where what the candidate wrote is not read before; raises the error."""
        is_own = getattr(made.metadata, "ptx_options", None) or _ASM_OPERATION in made.asm["ttir"]
        if self._depth is not Depth.CODE and is_own and made.hash not in self._checked:
            with self._fully(kernel):
                make()
            self._checked.add(made.hash)

    def find_registers(self, kernel: Any, make: Callable[[], Any], binary: str) -> int:
        """Return how many registers a thread takes of what `make` compiles, which is loadable then."""
        with self._fully(kernel):
            return find_registers(make().asm[binary])

    @contextmanager
    def _fully(self, kernel: Any) -> Iterator[None]:
        depth = self._depth
        if depth is Depth.CODE:
            yield
            return
        kept = kernel.__dict__[_KEPT]
        kernel.__dict__[_KEPT] = defaultdict(kernel.create_binder)
        self.begin(Depth.CODE)
        try:
            yield
        finally:
            self.begin(depth)
            kernel.__dict__[_KEPT] = kept
