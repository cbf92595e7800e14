# task: group_norm
# style: one program a group: sums of x and x^2 in a loop, then scaling channel by channel
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _group_norm_forward_kernel(Y_ptr, Y_row_stride, Y_col_stride, X_ptr, X_row_stride, X_col_stride, W_ptr, B_ptr, hidden_size,
                               channels_per_group, eps, BLOCK_SIZE: tl.constexpr):
    batch_idx = tl.program_id(0)
    group_idx = tl.program_id(1)
    X_ptr += batch_idx * X_row_stride + group_idx * X_col_stride
    Y_ptr += batch_idx * Y_row_stride + group_idx * Y_col_stride
    block_range = tl.arange(0, BLOCK_SIZE)
    s = 0.0
    for i in range(0, hidden_size, BLOCK_SIZE):
        hidden_size_offsets = i + block_range
        X = tl.load(X_ptr + hidden_size_offsets, mask=hidden_size_offsets < hidden_size, other=0.0)
        s += tl.sum(X)
    m = s / hidden_size
    variance = 0.0
    for i in range(0, hidden_size, BLOCK_SIZE):
        hidden_size_offsets = i + block_range
        mask = hidden_size_offsets < hidden_size
        X = tl.load(X_ptr + hidden_size_offsets, mask=mask, other=m)
        diff = X - m
        variance += tl.sum(diff * diff)
    rstd = tl.rsqrt(variance / hidden_size + eps)
    hidden_size_per_channel = hidden_size // channels_per_group
    for channel_idx in tl.range(group_idx * channels_per_group, (group_idx + 1) * channels_per_group):
        W = tl.load(W_ptr + channel_idx)
        B = tl.load(B_ptr + channel_idx)
        for i in range(0, hidden_size_per_channel, BLOCK_SIZE):
            offs = i + block_range
            mask = offs < hidden_size_per_channel
            X = tl.load(X_ptr + offs, mask=mask, other=m)
            Y = (X - m) * rstd * W + B
            tl.store(Y_ptr + offs, Y, mask=mask)
        X_ptr += hidden_size_per_channel
        Y_ptr += hidden_size_per_channel


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_groups = 4
        self.weight = nn.Parameter(torch.ones(24))
        self.bias = nn.Parameter(torch.zeros(24))

    def forward(self, X):
        shape = X.shape
        batch_size, channels = shape[0], shape[1]
        X = X.view(batch_size, self.num_groups, -1).contiguous()
        hidden_size = X.shape[-1]
        BLOCK_SIZE = min(65536 // 8, triton.next_power_of_2(hidden_size))
        Y = torch.empty((batch_size, self.num_groups, hidden_size), dtype=X.dtype, device=X.device)
        _group_norm_forward_kernel[(batch_size, self.num_groups)](
            Y, Y.stride(0), Y.stride(1), X, X.stride(0), X.stride(1), self.weight, self.bias, hidden_size, channels // self.num_groups,
            1e-5, BLOCK_SIZE=BLOCK_SIZE)
        return Y.view(*shape)
