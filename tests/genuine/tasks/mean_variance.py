import torch
import torch.nn as nn

ROWS = 24
COLUMNS = 40


class Model(nn.Module):
    def forward(self, x):
        return x.mean(dim=1), x.var(dim=1, unbiased=False)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS) + 1.0]


def get_init_inputs():
    return []
