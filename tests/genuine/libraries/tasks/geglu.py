import torch
import torch.nn as nn

TOKENS = 512
WIDTH = 1024


class Model(nn.Module):
    def forward(self, gate, up):
        return nn.functional.gelu(gate, approximate="tanh") * up


def get_inputs():
    return [torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, WIDTH)]


def get_init_inputs():
    return []
