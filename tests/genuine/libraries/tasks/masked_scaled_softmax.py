import torch
import torch.nn as nn

BATCH = 2
LENGTH = 96


class Model(nn.Module):
    def forward(self, x, mask):
        return torch.softmax((x * 0.5).masked_fill(mask, -10000.0), dim=-1)


def get_inputs():
    return [torch.randn(BATCH, 4, LENGTH, LENGTH), torch.rand(BATCH, 1, LENGTH, LENGTH) > 0.7]


def get_init_inputs():
    return []
