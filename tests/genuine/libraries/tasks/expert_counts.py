import torch
import torch.nn as nn

TOKENS = 4096


class Model(nn.Module):
    def forward(self, ids):
        return (ids.view(-1, 1) == torch.arange(16, device=ids.device)).sum(0)


def get_inputs():
    return [torch.randint(0, 16, (TOKENS, 2))]


def get_init_inputs():
    return []
