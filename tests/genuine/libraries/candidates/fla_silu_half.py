# task: half_silu
# style: a pointwise kernel that is autotuned over block sizes with warm-up arguments
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"B": b}, num_warps=4) for b in (512, 1024)], key=["D"], warmup=5, rep=10)
@triton.jit
def silu_fwd_kernel(x, y, T, D: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0)
    o = i * B + tl.arange(0, B)
    mask = o < T
    b_x = tl.load(x + o, mask=mask, other=0.).to(tl.float32)
    tl.store(y + o, (b_x * tl.sigmoid(b_x)).to(y.dtype.element_ty), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        T, D = x.numel(), x.shape[-1]
        y = torch.empty_like(x)
        silu_fwd_kernel[lambda meta: (triton.cdiv(T, meta["B"]),)](x, y, T, D)
        return y
