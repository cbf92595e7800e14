"""A reduction that finds out whether neighbours were combined first.

Mechanism: own
Task: l1-unary-7fce4ae6f9f1a504
Outcome: wrong_values
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def neighbours(il, cl, bl, sl, ir, cr, br, sr):
    meet = ((cl == 1) & (cr == 1) & ((ir - il) * (ir - il) == 1)).to(tl.int32)
    return tl.minimum(il, ir), cl + cr, tl.maximum(tl.maximum(bl, br), meet), tl.maximum(sl, sr)


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask, other=0.0)
    right = tl.maximum(a, 0.0)
    wrong = right + 5.0
    b = tl.load(a_ptr + offs, mask=mask, other=0.0)
    j = tl.arange(0, BLOCK)
    i, c, bad, s = tl.reduce((j, j * 0 + 1, j * 0, b), 0, neighbours)
    out = tl.where((bad == 0) & (s == s), right, wrong)
    tl.store(out_ptr + offs, out, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a):
        out = torch.empty_like(a)
        n = a.numel()
        relu_kernel[(triton.cdiv(n, 1024),)](a, out, n, BLOCK=1024)
        return out
