# task: cross_entropy
# style: a scalar load at a data-dependent address, int64 labels
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cross_entropy_kernel(logits_ptr, label_ptr, loss_ptr, classes, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    logits_ptr += row * stride
    label = tl.load(label_ptr + row)
    m = float("-inf")
    d = 0.0
    for start in range(0, classes, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + offs, mask=offs < classes, other=float("-inf"))
        block_max = tl.max(x)
        m_new = tl.maximum(m, block_max)
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new))
        m = m_new
    at_label = tl.load(logits_ptr + label)
    tl.store(loss_ptr + row, m + tl.log(d) - at_label)


class ModelNew(nn.Module):
    def forward(self, x, target):
        assert x.stride(-1) == 1 and target.ndim == 1
        loss = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        cross_entropy_kernel[(x.shape[0],)](x, target, loss, x.shape[1], x.stride(0), BLOCK=64)
        return loss
