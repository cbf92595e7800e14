# task: rope
# style: groups of heads a program, a BACKWARD_PASS flag that heuristics make, loads without other
import torch
import torch.nn as nn
import triton
import triton.language as tl

ROPE_GROUP_SIZE: int = 4


@triton.heuristics({"BACKWARD_PASS": lambda args: bool(args["BACKWARD_PASS"])})
@triton.jit
def _rope_embedding(Q, Q_out, Q_row_stride: tl.constexpr, cos, cos_row_stride: tl.constexpr, sin, sin_row_stride: tl.constexpr,
                    seqlen, head_dim: tl.constexpr, n_heads: tl.constexpr, BACKWARD_PASS: tl.constexpr,
                    BLOCK_SIZE: tl.constexpr, GROUP: tl.constexpr):
    row_position = tl.program_id(0)
    group_head_position = tl.program_id(1)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    half_head_dim = head_dim // 2
    mask = col_offsets < half_head_dim
    at = (row_position % seqlen)
    sin1 = tl.load(sin + at * sin_row_stride + col_offsets, mask = mask)
    cos1 = tl.load(cos + at * cos_row_stride + col_offsets, mask = mask)
    sin2 = tl.load(sin + at * sin_row_stride + half_head_dim + col_offsets, mask = mask)
    cos2 = tl.load(cos + at * cos_row_stride + half_head_dim + col_offsets, mask = mask)
    if BACKWARD_PASS:
        sin1 = -sin1
        sin2 = -sin2
    head_start = group_head_position * GROUP
    head_end = min((head_start + GROUP), n_heads)
    for k in range(head_start, head_end):
        offs_q1 = row_position * Q_row_stride + k * head_dim + col_offsets
        offs_q2 = offs_q1 + half_head_dim
        Q1 = tl.load(Q + offs_q1, mask = mask)
        Q2 = tl.load(Q + offs_q2, mask = mask)
        tl.store(Q_out + offs_q1, Q1 * cos1 - Q2 * sin1, mask = mask)
        tl.store(Q_out + offs_q2, Q2 * cos2 + Q1 * sin2, mask = mask)


class ModelNew(nn.Module):
    def forward(self, q, cos, sin):
        cos, sin = cos.squeeze(), sin.squeeze()
        batch, seq_len, n_heads, head_dim = q.shape
        Q = q.reshape(batch * seq_len, n_heads * head_dim)
        out = torch.empty_like(Q)
        n_rows, n_cols = Q.shape
        div, mod = divmod(n_heads, ROPE_GROUP_SIZE)
        n_groups = div + (mod != 0)
        _rope_embedding[(n_rows, n_groups,)](
            Q, out, Q.stride(0), cos.view(seq_len, head_dim), head_dim, sin.view(seq_len, head_dim), head_dim, seq_len, head_dim, n_heads,
            BACKWARD_PASS = False, BLOCK_SIZE = triton.next_power_of_2(head_dim // 2), GROUP = ROPE_GROUP_SIZE, num_warps = 4)
        return out.view(batch, seq_len, n_heads, head_dim)
