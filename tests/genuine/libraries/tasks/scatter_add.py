import torch
import torch.nn as nn

ROWS = 300
COLUMNS = 64
ADDED = 200


class Model(nn.Module):
    def forward(self, x, index, source):
        return torch.index_add(x, 0, index, source)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randint(0, ROWS, (ADDED,)), torch.randn(ADDED, COLUMNS)]


def get_init_inputs():
    return []
