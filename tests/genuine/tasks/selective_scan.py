import torch
import torch.nn as nn

ROWS = 4
LENGTH = 60
STATES = 8


class Model(nn.Module):
    def forward(self, x, step, rate, gain):
        state = torch.zeros(x.shape[0], rate.shape[0], device=x.device, dtype=x.dtype)
        results = []
        for at in range(x.shape[1]):
            state = state * torch.exp(step[:, at, None] * rate) + (step * x)[:, at, None]
            results.append((state * gain).sum(-1))
        return torch.stack(results, 1)


def get_inputs():
    return [torch.randn(ROWS, LENGTH), torch.rand(ROWS, LENGTH), -torch.rand(STATES), torch.randn(STATES)]


def get_init_inputs():
    return []
