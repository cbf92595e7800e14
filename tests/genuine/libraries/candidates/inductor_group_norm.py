# task: group_norm
# style: two kernels: statistics with a masked reduction without other, then a pointwise kernel with division of indices
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def triton_red_native_group_norm_0(in_ptr0, out_ptr0, out_ptr1, xnumel, rnumel, RBLOCK: tl.constexpr):
    x0 = tl.program_id(0)
    rbase = tl.arange(0, RBLOCK)
    _s = tl.zeros([RBLOCK], tl.float32)
    for roffset in range(0, rnumel, RBLOCK):
        r = roffset + rbase
        rmask = r < rnumel
        tmp0 = tl.load(in_ptr0 + (r + rnumel*x0), rmask)
        _s = tl.where(rmask, _s + tmp0, _s)
    mean = tl.sum(_s, 0) / rnumel
    _q = tl.zeros([RBLOCK], tl.float32)
    for roffset in range(0, rnumel, RBLOCK):
        r = roffset + rbase
        rmask = r < rnumel
        tmp1 = tl.load(in_ptr0 + (r + rnumel*x0), rmask)
        tmp2 = tmp1 - mean
        _q = tl.where(rmask, _q + tmp2 * tmp2, _q)
    tl.store(out_ptr0 + (x0), mean)
    tl.store(out_ptr1 + (x0), tl.sum(_q, 0))


@triton.jit
def triton_poi_native_group_norm_1(in_ptr0, in_ptr1, in_ptr2, in_ptr3, in_ptr4, out_ptr0, ks, per_group, xnumel, XBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x2 = xindex
    x1 = (xindex // ks) % 24
    tmp0 = tl.load(in_ptr0 + (x2), xmask)
    tmp1 = tl.load(in_ptr1 + (x2 // per_group), xmask, eviction_policy='evict_last')
    tmp3 = tl.load(in_ptr2 + (x2 // per_group), xmask, eviction_policy='evict_last')
    tmp10 = tl.load(in_ptr3 + (x1), xmask, eviction_policy='evict_last')
    tmp12 = tl.load(in_ptr4 + (x1), xmask, eviction_policy='evict_last')
    tmp2 = tmp0 - tmp1
    tmp4 = tmp3 / per_group
    tmp7 = tl.rsqrt(tmp4 + 1e-05)
    tmp13 = tmp2 * tmp7 * tmp10 + tmp12
    tl.store(out_ptr0 + (x2), tmp13, xmask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(24))
        self.bias = nn.Parameter(torch.zeros(24))

    def forward(self, x):
        s0, _, s2, s3 = x.shape
        per_group = 6 * s2 * s3
        buf0 = torch.empty_strided((s0, 4, 1, 1), (4, 1, 1, 1), device=x.device, dtype=torch.float32)
        buf1 = torch.empty_strided((s0, 4, 1, 1), (4, 1, 1, 1), device=x.device, dtype=torch.float32)
        triton_red_native_group_norm_0[(s0 * 4,)](x, buf0, buf1, s0 * 4, per_group, RBLOCK=256)
        buf3 = torch.empty_strided(x.shape, x.stride(), device=x.device, dtype=torch.float32)
        n = x.numel()
        triton_poi_native_group_norm_1[(triton.cdiv(n, 256),)](x, buf0, buf1, self.weight, self.bias, buf3, s2 * s3, per_group, n, XBLOCK=256)
        return buf3
