import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 128
COLUMNS = 3000


class Model(nn.Module):
    def __init__(self, negative_slope=0.2):
        super().__init__()
        self.negative_slope = negative_slope

    def forward(self, inputs):
        return torch.softmax(F.leaky_relu(inputs, self.negative_slope), dim=1) + 0.5


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []
