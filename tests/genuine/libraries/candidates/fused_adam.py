# task: adam_step
# style: four inputs and three results in one flat kernel, hyperparameters as float arguments
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def adam(p, g, m, v, po, mo, vo, lr, beta1, beta2, eps, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = at < n
    gg = tl.load(g + at, mask=k)
    mm = tl.load(m + at, mask=k) * beta1 + gg * (1.0 - beta1)
    vv = tl.load(v + at, mask=k) * beta2 + gg * gg * (1.0 - beta2)
    pp = tl.load(p + at, mask=k) - lr * mm / (tl.sqrt(vv) + eps)
    tl.store(po + at, pp, mask=k)
    tl.store(mo + at, mm, mask=k)
    tl.store(vo + at, vv, mask=k)


class ModelNew(nn.Module):
    lr, betas, eps = 1e-3, (0.9, 0.95), 1e-8

    def forward(self, p, g, m, v):
        outs = [torch.empty_like(t) for t in (p, m, v)]
        n = p.numel()
        adam[(triton.cdiv(n, 1024),)](p, g, m, v, *outs, self.lr, *self.betas, self.eps, n, BLOCK=1024, num_warps=8)
        return tuple(outs)
