import torch
import torch.nn as nn

ROWS = 256
CLASSES = 2000


class Model(nn.Module):
    def forward(self, log_p, target):
        return nn.functional.kl_div(log_p, target, reduction="none").sum(-1)


def get_inputs():
    return [torch.log_softmax(torch.randn(ROWS, CLASSES), -1), torch.softmax(torch.randn(ROWS, CLASSES), -1)]


def get_init_inputs():
    return []
