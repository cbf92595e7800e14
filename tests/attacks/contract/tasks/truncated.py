import torch
import torch.nn as nn

ROWS = 256
COLUMNS = 700


class Model(nn.Module):
    def forward(self, x):
        return torch.trunc(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS) * 20.0]


def get_init_inputs():
    return []
