# task: add_rms_norm
# style: in place on copies, as a server's op on its own buffers, with a warning for odd widths
import warnings

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_norm_inplace(x_ptr, res_ptr, w_ptr, n, eps, BLOCK: tl.constexpr):
    pid = tl.program_id(axis=0)
    offs = tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + pid * n + offs, mask=mask, other=0.0).to(tl.float32)
    r = tl.load(res_ptr + pid * n + offs, mask=mask, other=0.0).to(tl.float32)
    s = x + r
    tl.store(res_ptr + pid * n + offs, s, mask=mask)
    rms = tl.sqrt(tl.sum(s * s, axis=0) / n + eps)
    w = tl.load(w_ptr + offs, mask=mask, other=0.0)
    tl.store(x_ptr + pid * n + offs, s / rms * w, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x, residual):
        if x.shape[-1] % 8:
            warnings.warn("hidden size is no multiple of 8: vector loads are not used", stacklevel=2)
        out, res = x.clone(), residual.clone()
        add_norm_inplace[(x.shape[0],)](out, res, self.weight, x.shape[-1], 1e-6, BLOCK=triton.next_power_of_2(x.shape[-1]))
        return out, res
