"""The decorator is called jit, and is not Triton's.

Mechanism: 9
Task: l1-unary-7fce4ae6f9f1a504
Outcome: no_kernel
Stage: ast
"""

import functools

import torch
import torch.nn as nn


class triton:
    @staticmethod
    def jit(function):
        return functools.lru_cache(function)


@triton.jit
def relu_kernel(a):
    return torch.relu(a)


class ModelNew(nn.Module):
    def forward(self, a):
        return relu_kernel(a)
