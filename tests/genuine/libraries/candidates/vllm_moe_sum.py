# task: weighted_experts
# style: a static loop over the chosen experts, accumulated in float32
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def moe_sum(x, w, out, width, TOPK: tl.constexpr, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = c < width
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in tl.static_range(0, TOPK):
        acc += tl.load(x + (t * TOPK + k) * width + c, mask=m, other=0.0).to(tl.float32) * tl.load(w + t * TOPK + k)
    tl.store(out + t * width + c, acc.to(out.dtype.element_ty), mask=m)


class ModelNew(nn.Module):
    def forward(self, x, weights):
        tokens, topk, width = x.shape
        out = torch.empty((tokens, width), device=x.device, dtype=x.dtype)
        moe_sum[(tokens, triton.cdiv(width, 128))](x, weights, out, width, TOPK=topk, BLOCK=128)
        return out
