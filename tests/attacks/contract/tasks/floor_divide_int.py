import torch
import torch.nn as nn

N = 262144


class Model(nn.Module):
    def forward(self, x, y):
        return torch.div(x, y, rounding_mode="floor")


def get_inputs():
    return [torch.randint(0, 1000, (N,), dtype=torch.int32), torch.randint(1, 50, (N,), dtype=torch.int32)]


def get_init_inputs():
    return []
