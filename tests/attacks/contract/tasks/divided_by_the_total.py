import torch
import torch.nn as nn

ROWS = 6000
COLUMNS = 1024


class Model(nn.Module):
    def forward(self, x):
        return x / torch.sqrt(x.pow(2).sum())


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
