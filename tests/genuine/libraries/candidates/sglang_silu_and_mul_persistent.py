# task: silu_and_mul
# style: a persistent grid sized by a cached count of processors
import functools

import torch
import torch.nn as nn
import triton
import triton.language as tl


@functools.lru_cache(maxsize=None)
def num_sms(index):
    return torch.cuda.get_device_properties(index).multi_processor_count


@triton.jit
def act_kernel(x_ptr, o_ptr, rows, d, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        for start in range(0, d, BLOCK):
            c = start + cols
            g = tl.load(x_ptr + row * 2 * d + c, mask=c < d, other=0.0)
            u = tl.load(x_ptr + row * 2 * d + d + c, mask=c < d, other=0.0)
            tl.store(o_ptr + row * d + c, g * tl.sigmoid(g) * u, mask=c < d)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, twice = x.shape
        o = x.new_empty((rows, twice // 2))
        act_kernel[(min(rows, 2 * num_sms(x.device.index or 0)),)](x, o, rows, twice // 2, BLOCK=128)
        return o
