"""The tuner drops blocks that do not hold a row, but its key has the rows alone: a block of 512 is kept for 600 columns.

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


def keep_those_that_hold_a_row(configs, named_args, **kwargs):
    return [config for config in configs if config.kwargs["BLOCK"] >= named_args["columns"]]


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}) for block in (4096, 1024, 512)],
    key=["rows"],
    prune_configs_by={"early_config_prune": keep_those_that_hold_a_row},
)
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
