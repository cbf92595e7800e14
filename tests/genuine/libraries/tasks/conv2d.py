import torch
import torch.nn as nn

BATCH = 2
SIDE = 20


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(16, 8, 3, 3) * 0.1)

    def forward(self, x):
        return nn.functional.conv2d(x, self.weight, padding=1)


def get_inputs():
    return [torch.randn(BATCH, 8, SIDE, SIDE)]


def get_init_inputs():
    return []
