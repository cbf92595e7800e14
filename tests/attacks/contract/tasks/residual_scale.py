import torch
import torch.nn as nn

BATCH, DIM = 256, 512


class Model(nn.Module):
    def __init__(self, dim, start):
        super().__init__()
        self.gamma = nn.Parameter(start * torch.ones(dim))

    def forward(self, x):
        return x + self.gamma * torch.sigmoid(x)


def get_inputs():
    return [torch.randn(BATCH, DIM)]


def get_init_inputs():
    return [DIM, 1e-6]
