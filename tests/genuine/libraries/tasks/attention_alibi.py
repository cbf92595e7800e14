import torch
import torch.nn as nn

BATCH = 2
LENGTH = 128


class Model(nn.Module):
    def forward(self, q, k, v, slopes):
        length = q.shape[-2]
        at = torch.arange(length, device=q.device)
        bias = -(at[:, None] - at[None, :]).abs() * slopes[:, None, None]
        return torch.softmax(q @ k.transpose(-1, -2) * 0.25 + bias, dim=-1) @ v


def get_inputs():
    return [torch.randn(BATCH, 4, LENGTH, 16) for _ in range(3)] + [torch.tensor([0.5, 0.25, 0.125, 0.0625])]


def get_init_inputs():
    return []
