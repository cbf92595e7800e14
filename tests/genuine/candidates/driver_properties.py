# task: softmax
# style: the persistent softmax that asks the driver for the device's properties
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(y_ptr, x_ptr, x_stride, y_stride, n_rows, n_cols, BLOCK_SIZE: tl.constexpr, num_stages: tl.constexpr):
    row_start = tl.program_id(0)
    row_step = tl.num_programs(0)
    for row_idx in tl.range(row_start, n_rows, row_step, num_stages=num_stages):
        col_offsets = tl.arange(0, BLOCK_SIZE)
        mask = col_offsets < n_cols
        row = tl.load(x_ptr + row_idx * x_stride + col_offsets, mask=mask, other=-float("inf"))
        numerator = tl.exp(row - tl.max(row, axis=0))
        tl.store(y_ptr + row_idx * y_stride + col_offsets, numerator / tl.sum(numerator, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        properties = torch.cuda.get_device_properties(x.device)
        n_rows, n_cols = x.shape
        y = torch.empty_like(x)
        num_programs = min(properties.multi_processor_count * 4, n_rows)
        softmax_kernel[(num_programs, 1, 1)](
            y, x, x.stride(0), y.stride(0), n_rows, n_cols, triton.next_power_of_2(n_cols), 2, num_warps=8
        )
        return y
