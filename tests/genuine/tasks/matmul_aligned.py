import torch
import torch.nn as nn

M = 256
N = 192
K = 64


class Model(nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b.t())


def get_inputs():
    return [torch.randn(M, 4 * K), torch.randn(N, 4 * K)]


def get_init_inputs():
    return []
