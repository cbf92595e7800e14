import torch
import torch.nn as nn

ROWS = 64
COLUMNS = 6000


class Model(nn.Module):
    def forward(self, x):
        at = torch.arange(x.shape[1], device=x.device)
        last = torch.where(x != 0.0, at, 0).cummax(dim=1).values
        return x.gather(1, last)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS) * (torch.rand(ROWS, COLUMNS) < 0.3)]


def get_init_inputs():
    return []
