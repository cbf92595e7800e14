import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 1
HEADS = 2
LENGTH = 256


class Model(nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def get_inputs():
    return [
        torch.randn(BATCH, HEADS, LENGTH, 32),
        torch.randn(BATCH, HEADS, LENGTH, 32),
        torch.randn(BATCH, HEADS, LENGTH, 32),
    ]


def get_init_inputs():
    return []
