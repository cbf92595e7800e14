import torch
import torch.nn as nn

SIZE = 5000
EDGES = 40


class Model(nn.Module):
    def forward(self, edges, x):
        return torch.searchsorted(edges, x, right=True)


def get_inputs():
    return [torch.sort(torch.randn(EDGES)).values, torch.randn(SIZE)]


def get_init_inputs():
    return []
