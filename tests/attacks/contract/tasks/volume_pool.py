import torch
import torch.nn as nn

BATCH = 32
CHANNELS = 44
DEPTH = 10
HEIGHT = 8
WIDTH = 8


class Model(nn.Module):
    def __init__(self, kernel_size, padding):
        super().__init__()
        self.pooling = nn.MaxPool3d(kernel_size, stride=3, padding=padding)

    def forward(self, inputs):
        return self.pooling(inputs)


def get_inputs():
    return [torch.rand(BATCH, CHANNELS, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [(1, 2, 2), (0, 1, 1)]
