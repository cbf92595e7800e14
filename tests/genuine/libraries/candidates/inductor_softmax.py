# task: softmax
# style: like generated code: xindex, rindex, tmp0 to tmp9, XBLOCK by RBLOCK, loads without other, where before each reduction
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def triton_per_fused__softmax_0(in_ptr0, out_ptr2, xnumel, rnumel, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rindex = tl.arange(0, RBLOCK)[None, :]
    rmask = rindex < rnumel
    r1 = rindex
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r1 + (rnumel*x0)), xmask & rmask)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, RBLOCK])
    tmp3 = tl.where(rmask & xmask, tmp1, float("-inf"))
    tmp4 = tl.max(tmp3, 1)[:, None]
    tmp5 = tmp0 - tmp4
    tmp6 = tl.exp(tmp5)
    tmp7 = tl.broadcast_to(tmp6, [XBLOCK, RBLOCK])
    tmp9 = tl.where(rmask & xmask, tmp7, 0)
    tmp10 = tl.sum(tmp9, 1)[:, None]
    tmp11 = tmp6 / tmp10
    tl.store(out_ptr2 + (r1 + (rnumel*x0)), tmp11, rmask & xmask)


class ModelNew(nn.Module):
    def forward(self, arg0_1):
        s0, s1 = arg0_1.size()
        with torch.cuda.device(arg0_1.device.index or 0):
            buf2 = torch.empty_strided((s0, s1), (s1, 1), device=arg0_1.device, dtype=torch.float32)
            xblock = 4
            triton_per_fused__softmax_0[(triton.cdiv(s0, xblock), 1, 1)](
                arg0_1, buf2, s0, s1, XBLOCK=xblock, RBLOCK=triton.next_power_of_2(s1), num_warps=4, num_stages=1)
        return (buf2)
