import torch
import torch.nn as nn

ROWS = 1024
COLUMNS = 192


class Model(nn.Module):
    def forward(self, x):
        return 2.0 * x + 1.0


def get_inputs():
    return [torch.randn(ROWS, 4 * COLUMNS)]


def get_init_inputs():
    return []
