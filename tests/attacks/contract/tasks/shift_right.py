import torch
import torch.nn as nn

N = 262144


class Model(nn.Module):
    def forward(self, x):
        return x >> 3


def get_inputs():
    return [torch.randint(0, 100000, (N,), dtype=torch.int32)]


def get_init_inputs():
    return []
