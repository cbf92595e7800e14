import torch
import torch.nn as nn

M = 128
K = 192
N = 96


class Model(nn.Module):
    def forward(self, x, a, b):
        return (x @ a) @ b * 2.0


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, 16) * 0.1, torch.randn(16, N)]


def get_init_inputs():
    return []
