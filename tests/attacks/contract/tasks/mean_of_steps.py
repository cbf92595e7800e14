import torch
import torch.nn as nn

BATCH = 60
STEPS = 1024
WIDTH = 64


class Model(nn.Module):
    def forward(self, x, mask):
        m = mask.unsqueeze(-1).to(x.dtype)
        return (x * m).sum(1) / m.sum(1).clamp(min=1.0)


def get_inputs():
    return [torch.randn(BATCH, STEPS, WIDTH), torch.rand(BATCH, STEPS) > 0.5]


def get_init_inputs():
    return []
