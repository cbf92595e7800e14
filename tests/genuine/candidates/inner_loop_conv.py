# task: depthwise
# style: a causal depthwise convolution whose loop is unrolled by a constexpr bound
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def depthwise_kernel(x_ptr, w_ptr, y_ptr, channels, length, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    channel = row % channels
    i = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros_like(i).to(tl.float32)
    for tap in tl.static_range(TAPS):
        j = i + tap - (TAPS - 1)
        x = tl.load(x_ptr + row * length + j, mask=(j >= 0) & (j < length), other=0.0)
        acc += x * tl.load(w_ptr + channel * TAPS + tap)
    tl.store(y_ptr + row * length + i, acc, mask=i < length)


class ModelNew(nn.Module):
    def forward(self, x, w):
        b, c, n = x.shape
        y = torch.empty_like(x)
        depthwise_kernel[(b * c, triton.cdiv(n, 64))](x, w, y, c, n, TAPS=w.shape[1], BLOCK=64)
        return y
