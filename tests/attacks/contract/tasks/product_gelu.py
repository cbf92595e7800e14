import torch
import torch.nn as nn

M = 256
N = 192
K = 128


class Model(nn.Module):
    def forward(self, a, b):
        return nn.functional.gelu(a @ b)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N) * 0.1]


def get_init_inputs():
    return []
