import torch
import torch.nn as nn

BATCH = 2
LENGTH = 128
HEADS = 4


class Model(nn.Module):
    def forward(self, q, cos, sin):
        q1, q2 = q.chunk(2, dim=-1)
        rotated = torch.cat((-q2, q1), dim=-1)
        return q * cos[None, :, None, :] + rotated * sin[None, :, None, :]


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS, 64), torch.randn(LENGTH, 64), torch.randn(LENGTH, 64)]


def get_init_inputs():
    return []
