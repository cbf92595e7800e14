import torch
import torch.nn as nn

BLOCKS = 256


class Model(nn.Module):
    def forward(self, codes, absmax, table):
        return table[codes.long()].view(-1, 64) * absmax[:, None]


def get_inputs():
    table = torch.linspace(-1, 1, 16)
    return [torch.randint(0, 16, (BLOCKS * 64,), dtype=torch.uint8), torch.rand(BLOCKS) + 0.1, table]


def get_init_inputs():
    return []
