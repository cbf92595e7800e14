import torch
import torch.nn as nn

ROWS = 200
COLUMNS = 900


class Model(nn.Module):
    def forward(self, x):
        return torch.diff(x, dim=1, append=torch.zeros_like(x[:, :1]))


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
