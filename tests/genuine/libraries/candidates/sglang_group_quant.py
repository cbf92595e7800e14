# task: act_quant
# style: several groups a program, the scale by a reciprocal, loads of a tile without other
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _per_token_group_quant(y_ptr, q_ptr, s_ptr, num_groups, G: tl.constexpr, PER: tl.constexpr, FMAX: tl.constexpr):
    g = tl.program_id(0) * PER + tl.arange(0, PER)
    c = tl.arange(0, G)
    ok = g < num_groups
    y = tl.load(y_ptr + g[:, None] * G + c[None, :], mask=ok[:, None]).to(tl.float32)
    absmax = tl.max(tl.abs(y), axis=1)
    scale = absmax / FMAX
    q = y / scale[:, None]
    tl.store(q_ptr + g[:, None] * G + c[None, :], q, mask=ok[:, None])
    tl.store(s_ptr + g, scale, mask=ok)


class ModelNew(nn.Module):
    def forward(self, x):
        groups = x.numel() // 64
        q = torch.empty_like(x)
        s = torch.empty((x.shape[0], x.shape[1] // 64), device=x.device, dtype=torch.float32)
        _per_token_group_quant[(triton.cdiv(groups, 4),)](x, q, s, groups, G=64, PER=4, FMAX=448.0, num_warps=1)
        return q, s
