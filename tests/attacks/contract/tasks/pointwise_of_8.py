"""A pointwise convolution of eight channels."""

import torch
import torch.nn as nn

BATCH = 6
CHANNELS = 8
LENGTH = 700
OUT = 24


class Model(nn.Module):
    def __init__(self, channels, out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, channels))

    def forward(self, x):
        return torch.einsum("oc,bcl->bol", self.weight, x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [CHANNELS, OUT]
