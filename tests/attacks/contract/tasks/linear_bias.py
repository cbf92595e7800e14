import torch
import torch.nn as nn

ROWS = 256
IN = 320
OUT = 192


class Model(nn.Module):
    def __init__(self, size_in, size_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size_out, size_in) * 0.05)
        self.bias = nn.Parameter(torch.randn(size_out))

    def forward(self, x):
        return x @ self.weight.t() + self.bias


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, OUT]
