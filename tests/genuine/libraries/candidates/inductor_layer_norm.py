# task: layer_norm
# style: like generated code: Welford's combination as a helper over tuples, tl.reduce with three operands, other by position
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def welford_combine(mean_1, m2_1, weight_1, mean_2, m2_2, weight_2):
    delta = mean_2 - mean_1
    new_weight = weight_1 + weight_2
    w2_over_w = tl.where(new_weight == 0.0, 0.0, weight_2 / new_weight)
    return (mean_1 + delta * w2_over_w, m2_1 + m2_2 + delta * delta * weight_1 * w2_over_w, new_weight)


@triton.jit
def triton_per_fused_native_layer_norm_0(in_ptr0, in_ptr1, in_ptr2, out_ptr0, xnumel, r0_numel, XBLOCK: tl.constexpr, R0_BLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_mask = r0_index < r0_numel
    tmp0 = tl.load(in_ptr0 + (r0_index + r0_numel*xindex), r0_mask & xmask, other=0.0)
    mean = tl.where(r0_mask & xmask, tmp0, 0.0)
    m2 = tl.zeros([XBLOCK, R0_BLOCK], tl.float32)
    weight = tl.where(r0_mask & xmask, 1.0, 0.0)
    tmp1, tmp2, tmp3 = tl.reduce((mean, m2, weight), 1, welford_combine)
    tmp4 = tmp1[:, None]
    tmp5 = tmp2[:, None] / tmp3[:, None]
    tmp6 = tl.load(in_ptr1 + r0_index, r0_mask, other=0.0)
    tmp7 = tl.load(in_ptr2 + r0_index, r0_mask, other=0.0)
    tmp8 = (tmp0 - tmp4) * tl.rsqrt(tmp5 + 1e-05) * tmp6 + tmp7
    tl.store(out_ptr0 + (r0_index + r0_numel*xindex), tmp8, r0_mask & xmask)


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x):
        s0, s1 = x.shape
        buf0 = torch.empty_strided((s0, s1), (s1, 1), device=x.device, dtype=x.dtype)
        triton_per_fused_native_layer_norm_0[(s0,)](x, self.weight, self.bias, buf0, s0, s1, XBLOCK=1, R0_BLOCK=triton.next_power_of_2(s1), num_warps=2)
        return buf0
