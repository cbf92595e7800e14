import torch
import torch.nn as nn
import torch.nn.functional as F

B = 3
C = 5
H = 30
W = 34


class Model(nn.Module):
    def forward(self, x):
        return F.max_pool2d(x, 3, stride=2, padding=1, return_indices=True)


def get_inputs():
    return [torch.randn(B, C, H, W)]


def get_init_inputs():
    return []
