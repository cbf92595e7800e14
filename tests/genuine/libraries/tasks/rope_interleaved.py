import torch
import torch.nn as nn

BATCH = 2
LENGTH = 128
HEADS = 4


class Model(nn.Module):
    def forward(self, x, cos, sin):
        even, odd = x[..., ::2], x[..., 1::2]
        c, s = cos[None, :, None, :], sin[None, :, None, :]
        return torch.stack((even * c - odd * s, even * s + odd * c), dim=-1).flatten(-2)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS, 32), torch.randn(LENGTH, 16), torch.randn(LENGTH, 16)]


def get_init_inputs():
    return []
