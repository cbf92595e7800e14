import torch
import torch.nn as nn

ROWS = 1024
COLUMNS = 768


class Model(nn.Module):
    def forward(self, x, y):
        return torch.div(x, y, rounding_mode="trunc"), torch.remainder(x, y)


def get_inputs():
    return [
        torch.randint(-1000, 1000, (ROWS, COLUMNS), dtype=torch.int32),
        torch.randint(1, 50, (ROWS, COLUMNS), dtype=torch.int32),
    ]


def get_init_inputs():
    return []
