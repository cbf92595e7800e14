import torch
import torch.nn as nn

M = 64
N = 192
GROUPS = 4


class Model(nn.Module):
    def forward(self, x, packed, scales):
        shifts = torch.arange(0, 32, 4, device=x.device, dtype=torch.int32)
        w = (packed[:, None, :] >> shifts[None, :, None]) & 15
        w = (w.flatten(0, 1) - 8).to(x.dtype)
        return x @ (w * scales.repeat_interleave(32, dim=0))


def get_inputs():
    packed = torch.randint(-(2**31), 2**31 - 1, (GROUPS * 4, N), dtype=torch.int32)
    return [torch.randn(M, GROUPS * 32), packed, torch.rand(GROUPS, N) * 0.05 + 0.01]


def get_init_inputs():
    return []
