import torch
import torch.nn as nn

M = 256
N = 192
K = 128


class Model(nn.Module):
    def __init__(self, size_in, size_out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size_out, size_in) * 0.1)
        self.bias = nn.Parameter(torch.zeros(size_out))

    def forward(self, x):
        return nn.functional.linear(x, self.weight, self.bias)


def get_inputs():
    return [torch.randn(M, K)]


def get_init_inputs():
    return [K, N]
