# task: geglu
# style: pointwise generated code: xindex, tmp names, libdevice.tanh, a grid over all elements, mask None-like full blocks
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def triton_poi_fused_gelu_mul_0(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask)
    tmp14 = tl.load(in_ptr1 + (x0), xmask)
    tmp1 = 0.5
    tmp2 = tmp0 * tmp1
    tmp3 = tmp0 * tmp0
    tmp4 = tmp3 * tmp0
    tmp5 = 0.044715
    tmp6 = tmp4 * tmp5
    tmp7 = tmp0 + tmp6
    tmp8 = 0.7978845608028654
    tmp9 = tmp7 * tmp8
    tmp10 = libdevice.tanh(tmp9)
    tmp11 = 1.0
    tmp12 = tmp10 + tmp11
    tmp13 = tmp2 * tmp12
    tmp15 = tmp13 * tmp14
    tl.store(out_ptr0 + (x0), tmp15, xmask)


def call(args):
    arg0_1, arg1_1 = args
    args.clear()
    s0, s1 = arg0_1.size()
    buf0 = torch.empty_strided((s0, s1), (s1, 1), device=arg0_1.device, dtype=torch.float32)
    xnumel = s0 * s1
    triton_poi_fused_gelu_mul_0[(triton.cdiv(xnumel, 512),)](arg0_1, arg1_1, buf0, xnumel, XBLOCK=512, num_warps=8)
    del arg0_1
    del arg1_1
    return (buf0, )


class ModelNew(nn.Module):
    def forward(self, gate, up):
        return call([gate, up])[0]
