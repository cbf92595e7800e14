# task: scaled_add
# style: compiled ahead by warmup, its handles initialised and its registers read for the number of programs
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def persistent_axpy(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        m = at < n
        x = tl.load(x_ptr + at, mask=m, other=0.0)
        y = tl.load(y_ptr + at, mask=m, other=0.0)
        tl.store(o_ptr + at, x * 2.0 + y, mask=m)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.occupancy = {}

    def forward(self, x, y):
        o = torch.empty_like(x)
        key = (x.device.index or 0, x.dtype)
        if key not in self.occupancy:
            kernel = persistent_axpy.warmup(x, y, o, x.numel(), BLOCK=1024, num_warps=4, grid=(1,))
            kernel._init_handles()
            self.occupancy[key] = max(1, 65536 // (max(1, kernel.n_regs) * 32 * 4))
        props = torch.cuda.get_device_properties(x.device)
        programs = min(props.multi_processor_count * self.occupancy[key], triton.cdiv(x.numel(), 1024))
        persistent_axpy[(programs, 1, 1)](x, y, o, x.numel(), BLOCK=1024, num_warps=4)
        return o
