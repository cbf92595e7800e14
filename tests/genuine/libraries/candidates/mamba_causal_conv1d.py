# task: causal_conv1d
# style: a width of four in a static loop, other=0.0 left of the sequence, silu at the end
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _causal_conv1d_fwd_kernel(x_ptr, w_ptr, bias_ptr, o_ptr, dim, seqlen, KERNEL_WIDTH: tl.constexpr, SILU_ACTIVATION: tl.constexpr, BLOCK: tl.constexpr):
    idx = tl.program_id(0)
    channel = idx % dim
    t = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32) + tl.load(bias_ptr + channel).to(tl.float32)
    for j in tl.static_range(KERNEL_WIDTH):
        at = t - (KERNEL_WIDTH - 1) + j
        x = tl.load(x_ptr + idx * seqlen + at, mask=(at >= 0) & (at < seqlen), other=0.0)
        w = tl.load(w_ptr + channel * KERNEL_WIDTH + j)
        acc += x * w
    if SILU_ACTIVATION:
        acc = acc / (1 + tl.exp(-acc))
    tl.store(o_ptr + idx * seqlen + t, acc, mask=t < seqlen)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 4))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        batch, dim, seqlen = x.shape
        out = torch.empty_like(x)
        _causal_conv1d_fwd_kernel[(batch * dim, triton.cdiv(seqlen, 128))](x, self.weight, self.bias, out, dim, seqlen,
                                                                           KERNEL_WIDTH=self.weight.shape[1], SILU_ACTIVATION=True, BLOCK=128)
        return out
