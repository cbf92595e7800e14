import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 1
CHANNELS = 2
SIDE = 20


class Model(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, 2)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, 2 * SIDE, 2 * SIDE)]


def get_init_inputs():
    return []
