import torch
import torch.nn as nn

TOKENS = 512


class Model(nn.Module):
    def forward(self, logits):
        p = torch.softmax(logits, dim=-1)
        return p.max(dim=-1)


def get_inputs():
    return [torch.randn(TOKENS, 24)]


def get_init_inputs():
    return []
