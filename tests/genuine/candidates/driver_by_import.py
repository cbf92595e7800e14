# task: softmax
# style: the tutorial's import of the driver, its device and properties
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.runtime import driver


@triton.jit
def softmax(y_ptr, x_ptr, rows, cols, BLOCK: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0)):
        at = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
        shares = tl.exp(x - tl.max(x, axis=0))
        tl.store(y_ptr + row * cols + at, shares / tl.sum(shares, axis=0), mask=at < cols)


DEVICE = driver.active.get_active_torch_device()
NUM_PROCESSORS = driver.active.utils.get_device_properties(DEVICE.index)["multiprocessor_count"]


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        softmax[(min(NUM_PROCESSORS, rows),)](y, x, rows, cols, BLOCK=triton.next_power_of_2(cols))
        return y
