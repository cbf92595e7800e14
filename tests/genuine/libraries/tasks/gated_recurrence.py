import torch
import torch.nn as nn

BATCH = 4
LENGTH = 128
WIDTH = 96


class Model(nn.Module):
    def forward(self, x, g):
        h = torch.zeros_like(x[:, 0])
        out = []
        for t in range(x.shape[1]):
            h = torch.sigmoid(g[:, t]) * h + x[:, t]
            out.append(h)
        return torch.stack(out, dim=1)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, LENGTH, WIDTH)]


def get_init_inputs():
    return []
