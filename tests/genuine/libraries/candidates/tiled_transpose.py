# task: transpose
# style: a tile turned by tl.trans with both masks, int64 offsets
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
    rm = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    rn = tl.program_id(1).to(tl.int64) * BN + tl.arange(0, BN)
    t = tl.load(x + rm[:, None] * N + rn[None, :], mask=(rm[:, None] < M) & (rn[None, :] < N))
    tl.store(o + rn[:, None] * M + rm[None, :], tl.trans(t) * 2.0, mask=(rn[:, None] < N) & (rm[None, :] < M))


class ModelNew(nn.Module):
    def forward(self, x):
        M, N = x.shape
        o = x.new_empty((N, M))
        transpose_kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](x, o, M, N, 32, 32)
        return o
