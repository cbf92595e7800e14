import torch
import torch.nn as nn

BATCH = 2
HEADS = 4
LENGTH = 128


class Model(nn.Module):
    def forward(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v)


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, 32) for _ in range(3)]


def get_init_inputs():
    return []
