# task: rope
# style: one program a position, heads padded to powers of two, in place on a copy
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _triton_rope(q_ptr, q_row_stride, cos_ptr, cos_row_stride, sin_ptr, sin_row_stride, sl, n_qh: tl.constexpr,
                 hd: tl.constexpr, pad_n_qh: tl.constexpr, pad_hd: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    q_ptr = q_ptr + pid * q_row_stride
    cos_row_idx = pid % sl
    cos_ptr = cos_ptr + cos_row_idx * cos_row_stride
    sin_ptr = sin_ptr + cos_row_idx * sin_row_stride
    cos_offsets = tl.arange(0, pad_hd // 2)
    cos_mask = cos_offsets < hd // 2
    cos_row = tl.load(cos_ptr + cos_offsets, mask=cos_mask, other=0)
    sin_row = tl.load(sin_ptr + cos_offsets, mask=cos_mask, other=0)
    cos_row_2 = tl.load(cos_ptr + hd // 2 + cos_offsets, mask=cos_mask, other=0)
    sin_row_2 = tl.load(sin_ptr + hd // 2 + cos_offsets, mask=cos_mask, other=0)
    first_half_q_offsets = tl.arange(0, pad_n_qh)[:, None] * hd + tl.arange(0, pad_hd // 2)[None, :]
    first_q_mask = (tl.arange(0, pad_n_qh)[:, None] < n_qh) & (tl.arange(0, pad_hd // 2)[None, :] < hd // 2)
    q_tile_1 = tl.load(q_ptr + first_half_q_offsets, mask=first_q_mask, other=0).to(sin_row.dtype)
    second_half_q_offsets = first_half_q_offsets + (hd // 2)
    q_tile_2 = tl.load(q_ptr + second_half_q_offsets, mask=first_q_mask, other=0).to(sin_row.dtype)
    new_q_tile_1 = q_tile_1 * cos_row - q_tile_2 * sin_row
    tl.store(q_ptr + first_half_q_offsets, new_q_tile_1, mask=first_q_mask)
    new_q_tile_2 = q_tile_2 * cos_row_2 + q_tile_1 * sin_row_2
    tl.store(q_ptr + second_half_q_offsets, new_q_tile_2, mask=first_q_mask)


class ModelNew(nn.Module):
    def forward(self, q, cos, sin):
        q = q.clone(memory_format=torch.contiguous_format)
        batch_size, seq_len, n_q_head, head_dim = q.shape
        pad_hd = triton.next_power_of_2(head_dim)
        pad_n_q_head = triton.next_power_of_2(n_q_head)
        _triton_rope[(batch_size * seq_len,)](q, q.stride(1), cos, cos.stride(-2), sin, sin.stride(-2), seq_len, n_q_head,
                                              head_dim, pad_n_q_head, pad_hd, num_warps=4, num_stages=1)
        return q
