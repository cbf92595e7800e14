# task: smooth_l1_mean
# style: partial sums in a buffer, a second kernel of one program adds them
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def partial_loss(x, y, part, n, beta: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    m = at < n
    d = tl.abs(tl.load(x + at, mask=m, other=0.0) - tl.load(y + at, mask=m, other=0.0))
    loss = tl.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)
    tl.store(part + pid, tl.sum(loss, axis=0))


@triton.jit
def finish(part, out, parts, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, parts, BLOCK):
        at = i + tl.arange(0, BLOCK)
        total += tl.load(part + at, mask=at < parts, other=0.0)
    tl.store(out, tl.sum(total, axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        n = x.numel()
        parts = triton.cdiv(n, 1024)
        part = torch.empty(parts, device=x.device, dtype=torch.float32)
        out = torch.empty((), device=x.device, dtype=x.dtype)
        partial_loss[(parts,)](x, y, part, n, 1.0, BLOCK=1024)
        finish[(1,)](part, out, parts, n, BLOCK=128)
        return out
