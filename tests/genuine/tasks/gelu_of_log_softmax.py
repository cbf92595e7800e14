import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, COLS = 300, 1500


class Model(nn.Module):
    """GELU of a log-softmax: of probabilities this small it is what 1 minus nearly 1 leaves, in PyTorch as well."""

    def forward(self, x):
        return F.gelu(F.log_softmax(x, dim=-1))


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
