import torch
import torch.nn as nn

M = 256
N = 192
K = 320


class Model(nn.Module):
    def forward(self, a, b):
        return a.t() @ b.t()


def get_inputs():
    return [torch.randn(K, M), torch.randn(N, K)]


def get_init_inputs():
    return []
