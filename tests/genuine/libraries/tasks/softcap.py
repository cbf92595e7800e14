import torch
import torch.nn as nn

ROWS = 512
COLUMNS = 384


class Model(nn.Module):
    def forward(self, x):
        return 30.0 * torch.tanh(x / 30.0)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS) * 20.0]


def get_init_inputs():
    return []
