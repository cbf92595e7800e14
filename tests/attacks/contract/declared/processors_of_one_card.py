"""As many programs as the device has multiprocessors take every 132nd block: right on a card that has 132.

Mechanism: own
Task: add
Outcome: output_not_written
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for first in range(tl.program_id(0) * BLOCK, n, 132 * BLOCK):
        at = first + tl.arange(0, BLOCK)
        mask = at < n
        x, y = tl.load(x_ptr + at, mask=mask), tl.load(y_ptr + at, mask=mask)
        tl.store(out_ptr + at, x + 0.5 * y, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        num = torch.cuda.get_device_properties(x.device).multi_processor_count
        add[(num,)](x, y, out, x.numel(), BLOCK=512)
        return out
