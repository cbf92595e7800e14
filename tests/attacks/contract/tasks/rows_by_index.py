import torch
import torch.nn as nn

ROWS = 1000
COLUMNS = 96
TAKEN = 300


class Model(nn.Module):
    def forward(self, x, index):
        return x[index] * 2.0


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randint(0, ROWS, (TAKEN,))]


def get_init_inputs():
    return []
