import torch
import torch.nn as nn

ROWS = 300
COLUMNS = 200


class Model(nn.Module):
    def forward(self, x):
        return x.t().contiguous() * 2.0


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
