# task: expert_counts
# style: counts by atomics after zeros, ids loaded with a mask and counted under it
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def count(ids, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    e = tl.load(ids + at, mask=mask, other=0)
    tl.atomic_add(counts + e, 1, mask=mask, sem="relaxed")


@triton.jit
def widen(counts, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(counts + at, mask=at < n).to(tl.int64), mask=at < n)


class ModelNew(nn.Module):
    num_experts = 16

    def forward(self, ids):
        flat = ids.view(-1)
        counts = torch.zeros(self.num_experts, dtype=torch.int32, device=ids.device)
        out = torch.empty(self.num_experts, dtype=torch.int64, device=ids.device)
        count[(triton.cdiv(flat.numel(), 256),)](flat, counts, flat.numel(), BLOCK=256)
        widen[(1,)](counts, out, self.num_experts, BLOCK=16)
        return out
