import torch
import torch.nn as nn

M = 256
N = 600


class Model(nn.Module):
    def forward(self, x):
        return torch.argmax(x, dim=-1)


def get_inputs():
    return [torch.randint(0, 10000000, (M, N), dtype=torch.int32)]


def get_init_inputs():
    return []
