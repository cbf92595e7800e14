import torch
import torch.nn as nn

ROWS = 128
GROUPS = 4


class Model(nn.Module):
    def forward(self, x):
        groups = x.view(x.shape[0], -1, 64)
        s = groups.abs().amax(-1, keepdim=True) / 448.0
        return (groups / s).view_as(x), s.squeeze(-1)


def get_inputs():
    return [torch.randn(ROWS, GROUPS * 64)]


def get_init_inputs():
    return []
