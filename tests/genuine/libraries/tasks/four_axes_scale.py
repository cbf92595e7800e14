import torch
import torch.nn as nn

BATCH = 2
HEADS = 3
LENGTH = 20


class Model(nn.Module):
    def forward(self, x, s):
        return x * s[None, :, None, None]


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, 32), torch.randn(HEADS)]


def get_init_inputs():
    return []
