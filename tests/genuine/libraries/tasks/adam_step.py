import torch
import torch.nn as nn

N = 100000


class Model(nn.Module):
    def forward(self, p, g, m, v):
        m = 0.9 * m + 0.1 * g
        v = 0.95 * v + 0.05 * g * g
        return p - 0.001 * m / (torch.sqrt(v) + 1e-8), m, v


def get_inputs():
    return [torch.randn(N), torch.randn(N), torch.randn(N), torch.rand(N)]


def get_init_inputs():
    return []
