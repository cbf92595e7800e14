"""The tuner's second configuration takes 512 columns, all that are declared and no more; every key is a new choice.

Mechanism: own
Task: row_softmax
Outcome: wrong_values
Also: output_not_written@full
Stage: full
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BLOCK": 4096}), triton.Config({"BLOCK": 512})], key=["rows", "columns"])
@triton.jit
def softmax(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + at, e / tl.sum(e, axis=0), mask=at < columns)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, columns = x.shape
        softmax[(rows,)](x, out, rows, columns)
        return out
