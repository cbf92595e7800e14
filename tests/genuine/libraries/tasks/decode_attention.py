import torch
import torch.nn as nn

BATCH = 4
LENGTH = 512


class Model(nn.Module):
    def forward(self, q, k, v):
        p = torch.softmax(torch.einsum("bhd,bthd->bht", q, k) * 0.25, dim=-1)
        return torch.einsum("bht,bthd->bhd", p, v)


def get_inputs():
    return [torch.randn(BATCH, 4, 16), torch.randn(BATCH, LENGTH, 4, 16), torch.randn(BATCH, LENGTH, 4, 16)]


def get_init_inputs():
    return []
