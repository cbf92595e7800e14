import torch
import torch.nn as nn

S = 40
D = 64


class Model(nn.Module):
    def forward(self, w, idx, x):
        return w.index_add(0, idx, x)


def get_inputs():
    return [torch.randn(S, D), torch.arange(4 * S) % S, torch.randn(4 * S, D)]


def get_init_inputs():
    return []
