import torch
import torch.nn as nn

BATCH = 2
LENGTH = 96
HEADS = 4


class Model(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS, 64).transpose(1, 2)]


def get_init_inputs():
    return []
