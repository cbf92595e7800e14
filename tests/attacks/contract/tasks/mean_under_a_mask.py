import torch
import torch.nn as nn

B = 512
N = 1000


class Model(nn.Module):
    def forward(self, x, mask):
        m = mask.to(x.dtype)
        return (x * m).sum(-1) / m.sum(-1).clamp(min=1.0)


def get_inputs():
    return [torch.randn(B, N), torch.ones(B, N, dtype=torch.bool)]


def get_init_inputs():
    return []
