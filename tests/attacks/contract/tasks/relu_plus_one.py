import torch
import torch.nn as nn

B = 100000
N = 64


class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1.0


def get_inputs():
    return [torch.randn(B, N)]


def get_init_inputs():
    return []
