import torch
import torch.nn as nn

ROWS = 1024
COLUMNS = 768


class Model(nn.Module):
    def forward(self, x):
        values, indices = torch.max(x, dim=1)
        return values, indices


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
