"""A graph is captured and replayed, by names that a parameter hides.

Mechanism: 22
Task: l1-unary-7fce4ae6f9f1a504
Outcome: forward_failed
Stage: compile
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


def device(library):
    return library.cuda


@triton.jit
def relu_kernel(a_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    a = tl.load(a_ptr + offs, mask=mask)
    out = tl.where(a > 0, a, 0.0)
    tl.store(out_ptr + offs, out, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.graph = None

    def forward(self, a):
        if self.graph is None:
            self.graph, self.out = device(torch).CUDAGraph(), torch.empty_like(a)
            with device(torch).graph(self.graph):
                relu_kernel[(triton.cdiv(a.numel(), 1024),)](a, self.out, a.numel(), BLOCK=1024)
        self.graph.replay()
        return self.out
