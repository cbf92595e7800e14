# task: delta_rule
# style: a state of keys by values that is corrected at each step
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fused_recurrent_delta_rule_fwd_kernel(q, k, v, beta, o, T, K: tl.constexpr, V: tl.constexpr, BV: tl.constexpr):
    i_v, i_h = tl.program_id(0), tl.program_id(1)
    d = tl.arange(0, K)
    e = i_v * BV + tl.arange(0, BV)
    b_h = tl.zeros([BV, K], dtype=tl.float32)
    for t in range(0, T):
        b_k = tl.load(k + (i_h * T + t) * K + d).to(tl.float32)
        b_v = tl.load(v + (i_h * T + t) * V + e).to(tl.float32)
        b_q = tl.load(q + (i_h * T + t) * K + d).to(tl.float32)
        b_beta = tl.load(beta + i_h * T + t).to(tl.float32)
        b_v -= tl.sum(b_h * b_k[None, :], axis=1)
        b_v *= b_beta
        b_h += b_k[None, :] * b_v[:, None]
        tl.store(o + (i_h * T + t) * V + e, tl.sum(b_h * b_q[None, :], axis=1))


class ModelNew(nn.Module):
    def forward(self, q, k, v, beta):
        H, T, K = q.shape
        V = v.shape[-1]
        o = torch.empty_like(v)
        fused_recurrent_delta_rule_fwd_kernel[(V // 8, H)](q, k, v, beta, o, T, K, V, 8, num_warps=1)
        return o
