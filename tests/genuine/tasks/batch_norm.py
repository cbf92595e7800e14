import torch
import torch.nn as nn

BATCH = 3
CHANNELS = 10
LENGTH = 300


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.BatchNorm1d(channels)
        self.eval()

    def forward(self, x):
        return torch.relu(self.norm(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [CHANNELS]
