import torch
import torch.nn as nn

BATCH = 2
GROUP = 6
LENGTH = 200


class Model(nn.Module):
    def __init__(self, group):
        super().__init__()
        self.norm = nn.GroupNorm(4, 4 * group)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, 4 * GROUP, LENGTH)]


def get_init_inputs():
    return [GROUP]
