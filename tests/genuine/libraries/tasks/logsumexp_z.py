import torch
import torch.nn as nn

ROWS = 256
COLUMNS = 1500


class Model(nn.Module):
    def forward(self, x):
        lse = torch.logsumexp(x, dim=-1)
        return lse, lse * lse * 1e-4


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
