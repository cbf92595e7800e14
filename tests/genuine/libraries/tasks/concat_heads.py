import torch
import torch.nn as nn

BATCH = 3
LENGTH = 50


class Model(nn.Module):
    def forward(self, a, b):
        return torch.cat((a, b * 2.0), dim=-1)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, 24), torch.randn(BATCH, LENGTH, 40)]


def get_init_inputs():
    return []
