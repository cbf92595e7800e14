# task: rope_interleaved
# style: pairs side by side, split by tl.split after a reshape and put together by tl.join
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rotary_kernel(OUT, X, COS, SIN, seqlen, nheads, HEADDIM: tl.constexpr, BLOCK_M: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_head = tl.program_id(1)
    pid_batch = tl.program_id(2)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rk = tl.arange(0, HEADDIM)
    rk_half = tl.arange(0, HEADDIM // 2)
    base = (pid_batch * seqlen + rm) * nheads * HEADDIM + pid_head * HEADDIM
    mask = (rm < seqlen)[:, None]
    cos = tl.load(COS + rm[:, None] * (HEADDIM // 2) + rk_half[None, :], mask=mask, other=1.0).to(tl.float32)
    sin = tl.load(SIN + rm[:, None] * (HEADDIM // 2) + rk_half[None, :], mask=mask, other=0.0).to(tl.float32)
    x = tl.load(X + base[:, None] + rk[None, :], mask=mask, other=0.0).to(tl.float32)
    x0, x1 = tl.split(tl.reshape(x, (BLOCK_M, HEADDIM // 2, 2)))
    o0 = x0 * cos - x1 * sin
    o1 = x0 * sin + x1 * cos
    o = tl.reshape(tl.join(o0, o1), (BLOCK_M, HEADDIM))
    tl.store(OUT + base[:, None] + rk[None, :], o, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, cos, sin):
        batch, seqlen, nheads, headdim = x.shape
        output = torch.empty_like(x)
        BLOCK_M = 32 if headdim <= 64 else 8
        grid = lambda META: (triton.cdiv(seqlen, META["BLOCK_M"]), nheads, batch)
        rotary_kernel[grid](output, x, cos, sin, seqlen, nheads, HEADDIM=headdim, BLOCK_M=BLOCK_M)
        return output
