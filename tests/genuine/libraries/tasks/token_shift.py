import torch
import torch.nn as nn

BATCH = 4
LENGTH = 64
WIDTH = 96


class Model(nn.Module):
    def forward(self, x, mix):
        before = torch.cat((torch.zeros_like(x[:, :1]), x[:, :-1]), dim=1)
        return x + (before - x) * mix


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), torch.rand(WIDTH)]


def get_init_inputs():
    return []
