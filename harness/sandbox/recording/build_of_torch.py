"""Answer what host code asks of a CUDA build of PyTorch, where this one has no CUDA.

A build without CUDA has neither cuDNN nor any architecture, and says so in many places. The answers here are those of
the CUDA 12.8 wheels; what is answered by a function that asks the missing runtime is refused (`refusal`).
"""

from __future__ import annotations

import types
from typing import Any

import torch

from .refusal import refuse

_CUDA, _CUDNN, _CUSPARSELT = "12.8", 91002, 702
_ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")
_RUNTIME = (
    *("caching_allocator_alloc", "caching_allocator_delete", "can_device_access_peer", "cudart"),
    *("current_blas_handle", "current_solver_handle", "get_allocator_backend", "get_per_process_memory_fraction"),
    *("get_rng_state", "get_rng_state_all", "get_stream_from_external", "get_sync_debug_mode", "graph_pool_handle"),
    *("initial_seed", "ipc_collect", "list_gpu_processes", "set_rng_state", "set_rng_state_all"),
    *("set_sync_debug_mode",),
)
"""Functions of `torch.cuda` that fail in a build without it."""


_ACCELERATOR: dict[str, Any] = {
    "is_available": lambda: True,
    "device_count": lambda: 1,
    "current_accelerator": lambda check_available=False: torch.device("cuda"),
    "current_device_index": lambda: 0,
    "current_device_idx": lambda: 0,
    "synchronize": lambda device=None: None,
}
_TORCH_DEVICE_MODULE = torch.get_device_module


def _get_device_module(device: Any = None) -> Any:
    name = "cuda" if device is None else torch.device(device).type
    return torch.cuda if name == "cuda" else _TORCH_DEVICE_MODULE(device)


def pretend_build(is_without_cuda: bool) -> None:
    """Answer as a build with CUDA does, for the rest of this process."""
    for name in _RUNTIME:
        if hasattr(torch.cuda, name):
            setattr(torch.cuda, name, refuse(f"torch.cuda.{name}"))
    for name in ("version", "is_available"):
        setattr(torch.cuda.nccl, name, refuse(f"torch.cuda.nccl.{name}"))
    if not is_without_cuda:
        return
    torch.version.cuda = _CUDA
    suffix = f"+cu{_CUDA.replace('.', '')}"
    torch.__version__ = type(torch.__version__)(torch.__version__.replace("+cpu", suffix))
    torch.cuda.has_magma = True
    answers: dict[types.ModuleType, dict[str, Any]] = {
        torch: {"get_device_module": _get_device_module},
        torch.cuda: {
            "get_arch_list": lambda: list(_ARCHITECTURES),
            "init": lambda: None,
            "is_tf32_supported": lambda: torch.cuda.get_device_capability()[0] >= 8,
        },
        torch.backends.cuda: {"is_built": lambda: True, "is_flash_attention_available": lambda: True},
        torch.backends.cudnn: {
            "is_available": lambda: True,
            "version": lambda: _CUDNN,
            "is_acceptable": lambda tensor: tensor.is_cuda and tensor.is_floating_point(),
        },
        torch.backends.cusparselt: {"is_available": lambda: True, "version": lambda: _CUSPARSELT},
    }
    if hasattr(torch, "accelerator"):
        answers[torch.accelerator] = _ACCELERATOR
    for module, functions in answers.items():
        for name, answer in functions.items():
            _set_function(module, name, answer)


def _set_function(module: types.ModuleType, name: str, answer: Any) -> None:
    # some of these modules are objects that hand on what the module had
    holder = getattr(module, "m", module)
    for place in {id(module): module, id(holder): holder}.values():
        if hasattr(place, name):
            setattr(place, name, answer)
