# task: softmax
# style: two passes over a long row with a running maximum, evict_last hints, int64 row offsets, a logger of the module
import logging

import torch
import torch.nn as nn
import triton
import triton.language as tl

logger = logging.getLogger(__name__)
MAX_FUSED = 65536 // 4


@triton.jit
def online_softmax_fwd(x_ptr, y_ptr, stride_x, stride_y, n_cols, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    x_ptr += pid * stride_x
    y_ptr += pid * stride_y
    m = float("-inf")
    d = 0.0
    offs = tl.arange(0, BLOCK)
    for start in tl.range(0, n_cols, BLOCK):
        idx = start + offs
        mask = idx < n_cols
        xblk = tl.load(x_ptr + idx, mask=mask, other=float("-inf"), eviction_policy="evict_last")
        blk_max = tl.max(xblk, axis=0)
        new_m = tl.maximum(m, blk_max)
        d = d * tl.exp(m - new_m) + tl.sum(tl.exp(xblk - new_m), axis=0)
        m = new_m
    for start in tl.range(0, n_cols, BLOCK):
        idx = start + offs
        mask = idx < n_cols
        xblk = tl.load(x_ptr + idx, mask=mask, other=float("-inf"), eviction_policy="evict_first")
        tl.store(y_ptr + idx, tl.exp(xblk - m) / d, mask=mask, cache_modifier=".cs")


class ModelNew(nn.Module):
    def forward(self, x):
        n_rows, n_cols = x.shape
        if n_cols > MAX_FUSED:
            logger.warning("row of %d columns does not fit", n_cols)
        x = x.contiguous()
        y = torch.empty_like(x)
        BLOCK = min(1024, triton.next_power_of_2(n_cols))
        online_softmax_fwd[(n_rows,)](x, y, x.stride(0), y.stride(0), n_cols, BLOCK=BLOCK, num_warps=4)
        return y
