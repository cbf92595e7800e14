# task: scaled_add
# style: a module logger, getattr with a computed name for optional dtypes, debug messages in forward
import logging

import torch
import torch.nn as nn
import triton
import triton.language as tl

logger = logging.getLogger(__name__)
logger.addHandler(logging.NullHandler())
_FP8 = {name: getattr(torch, name, None) for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz")}
HAS_FP8 = any(dtype is not None for dtype in _FP8.values())


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    offsets = pid * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * 2.0 + y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        logger.debug("add of %s elements, fp8: %s", x.numel(), HAS_FP8)
        out = torch.empty_like(x)
        n_elements = out.numel()
        grid = lambda meta: (triton.cdiv(n_elements, meta['BLOCK_SIZE']), )
        add_kernel[grid](x, y, out, n_elements, BLOCK_SIZE=1024)
        return out
