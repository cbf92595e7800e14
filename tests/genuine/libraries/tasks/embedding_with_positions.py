import torch
import torch.nn as nn

VOCABULARY = 500
LENGTH = 128
WIDTH = 96


class Model(nn.Module):
    def __init__(self, vocabulary, length, width):
        super().__init__()
        self.tokens = nn.Parameter(torch.randn(vocabulary, width))
        self.positions = nn.Parameter(torch.randn(length, width))

    def forward(self, index):
        return self.tokens[index] + self.positions[: index.shape[-1]]


def get_inputs():
    return [torch.randint(0, VOCABULARY, (4, LENGTH))]


def get_init_inputs():
    return [VOCABULARY, LENGTH, WIDTH]
