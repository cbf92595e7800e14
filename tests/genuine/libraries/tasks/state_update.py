import torch
import torch.nn as nn

BATCH = 4
WIDTH = 96


class Model(nn.Module):
    def forward(self, state, x, dt, a, b, c):
        decay = torch.exp(dt[:, :, None] * a)
        state = state * decay + (dt * x)[:, :, None] * b[:, None, :]
        return (state * c[:, None, :]).sum(-1), state


def get_inputs():
    return [
        torch.randn(BATCH, WIDTH, 16),
        torch.randn(BATCH, WIDTH),
        torch.rand(BATCH, WIDTH),
        -torch.rand(WIDTH, 16),
        torch.randn(BATCH, 16),
        torch.randn(BATCH, 16),
    ]


def get_init_inputs():
    return []
