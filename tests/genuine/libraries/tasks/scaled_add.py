import torch
import torch.nn as nn

N = 100000


class Model(nn.Module):
    def forward(self, x, y):
        return x * 2.0 + y


def get_inputs():
    return [torch.randn(N), torch.randn(N)]


def get_init_inputs():
    return []
