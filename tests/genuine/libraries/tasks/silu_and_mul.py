import torch
import torch.nn as nn

TOKENS = 512
WIDTH = 1024


class Model(nn.Module):
    def forward(self, x):
        half = x.shape[-1] // 2
        return nn.functional.silu(x[..., :half]) * x[..., half:]


def get_inputs():
    return [torch.randn(TOKENS, 2 * WIDTH)]


def get_init_inputs():
    return []
