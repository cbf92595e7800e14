# task: loss_of_truth_values
# style: targets are truth values, of which each chooses one of two branches
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def loss(x_ptr, target_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    target = tl.load(target_ptr + at, mask=at < n, other=0.0)
    towards = tl.where(target > 0.5, -x, x)
    small = tl.exp(-tl.abs(towards))
    # log(1 + small), whose digits 1 + small would lose
    tail = tl.where(small < 1e-4, small - 0.5 * small * small, tl.log(1.0 + small))
    tl.store(out_ptr + at, tl.maximum(towards, 0.0) + tail, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, logits, targets):
        out = torch.empty_like(logits)
        n = logits.numel()
        loss[(triton.cdiv(n, 1024),)](logits, targets, out, n, BLOCK=1024)
        return out
