# task: silu
# style: a persistent grid sized by the device's multiprocessors, and a strided loop over tiles
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def persistent_silu(x_ptr, y_ptr, n, num_tiles, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), num_tiles, tl.num_programs(0)):
        offsets = tile * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0, eviction_policy="evict_first")
        y = x * tl.sigmoid(x.to(tl.float32))
        tl.store(y_ptr + offsets, y, mask=mask)


def get_num_sms():
    return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.is_cuda and x.is_contiguous()
        y = torch.empty_like(x)
        n = x.numel()
        BLOCK = 1024
        tiles = triton.cdiv(n, BLOCK)
        grid = (min(get_num_sms(), tiles),)
        with torch.cuda.device(x.device):
            persistent_silu[grid](x, y, n, tiles, BLOCK)
        return y
