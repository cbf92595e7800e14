# task: rms_norm
# style: like generated code for long rows: an accumulator of XBLOCK by RBLOCK, a second pass, loads without other
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def triton_red_fused_mean_mul_pow_rsqrt_0(in_ptr0, in_ptr1, out_ptr1, xnumel, rnumel, eps, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rbase = tl.arange(0, RBLOCK)[None, :]
    x0 = xindex
    _tmp3 = tl.full([XBLOCK, RBLOCK], 0, tl.float32)
    for roffset in range(0, rnumel, RBLOCK):
        rindex = roffset + rbase
        rmask = rindex < rnumel
        r1 = rindex
        tmp0 = tl.load(in_ptr0 + (r1 + (rnumel*x0)), rmask & xmask, eviction_policy='evict_last', other=0.0)
        tmp1 = tmp0 * tmp0
        tmp2 = tl.broadcast_to(tmp1, [XBLOCK, RBLOCK])
        tmp4 = _tmp3 + tmp2
        _tmp3 = tl.where(rmask & xmask, tmp4, _tmp3)
    tmp3 = tl.sum(_tmp3, 1)[:, None]
    for roffset in range(0, rnumel, RBLOCK):
        rindex = roffset + rbase
        rmask = rindex < rnumel
        r1 = rindex
        tmp5 = tl.load(in_ptr1 + (r1), rmask, eviction_policy='evict_last')
        tmp6 = tl.load(in_ptr0 + (r1 + (rnumel*x0)), rmask & xmask, eviction_policy='evict_first')
        tmp7 = rnumel.to(tl.float32)
        tmp8 = tmp3 / tmp7
        tmp10 = tmp8 + eps
        tmp11 = libdevice.rsqrt(tmp10)
        tmp12 = tmp6 * tmp11
        tmp13 = tmp5 * tmp12
        tl.store(out_ptr1 + (r1 + (rnumel*x0)), tmp13, rmask & xmask)


class ModelNew(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, primals_2):
        s0, s1 = primals_2.shape
        buf1 = torch.empty_strided((s0, s1), (s1, 1), device=primals_2.device, dtype=torch.float32)
        triton_red_fused_mean_mul_pow_rsqrt_0[(triton.cdiv(s0, 2),)](primals_2, self.weight, buf1, s0, s1, self.variance_epsilon, XBLOCK=2, RBLOCK=256)
        return buf1
