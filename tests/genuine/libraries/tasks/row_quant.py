import torch
import torch.nn as nn

ROWS = 256
COLUMNS = 512


class Model(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127.0
        return torch.round(x / scale).clamp(-128, 127).to(torch.int8), scale


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
