import torch
import torch.nn as nn

M = 128
N = 96
K = 256


class Model(nn.Module):
    def forward(self, a, b, a_scale, b_scale):
        return (a.float() @ b.float()) * a_scale[:, None] * b_scale[None, :]


def get_inputs():
    return [
        torch.randint(-20, 20, (M, K), dtype=torch.int8),
        torch.randint(-20, 20, (K, N), dtype=torch.int8),
        torch.rand(M) * 0.1,
        torch.rand(N) * 0.1,
    ]


def get_init_inputs():
    return []
