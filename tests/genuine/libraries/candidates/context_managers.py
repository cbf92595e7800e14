# task: scaled_add
# style: a device guard by contextlib, torch.inference_mode, a nullcontext where there is no second device
import contextlib

import torch
import torch.nn as nn
import triton
import triton.language as tl


@contextlib.contextmanager
def on_device(tensor):
    guard = torch.cuda.device(tensor.device) if tensor.is_cuda else contextlib.nullcontext()
    with guard:
        yield


@triton.jit
def axpy(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + at, tl.load(x_ptr + at, at < n) * 2.0 + tl.load(y_ptr + at, at < n), at < n)


class ModelNew(nn.Module):
    @torch.no_grad()
    def forward(self, x, y):
        o = torch.empty_like(x)
        with on_device(x):
            axpy[(triton.cdiv(x.numel(), 256),)](x, y, o, x.numel(), BLOCK=256)
        return o
