# task: matmul
# style: persistent matrix product, tl.range with stages, tl.assume, hints on offsets, a helper for the tile's place
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _place(tile, num_in_group, num_m, GROUP: tl.constexpr):
    group = tile // num_in_group
    first = group * GROUP
    size = min(num_m - first, GROUP)
    return first + (tile % size), (tile % num_in_group) // size


@triton.jit
def persistent_matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, s_am, s_ak, s_bk, s_bn, s_cm, s_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SMS: tl.constexpr,
):
    start = tl.program_id(0)
    num_m, num_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    k_tiles = tl.cdiv(K, BK)
    tl.assume(s_am > 0)
    for tile in tl.range(start, num_m * num_n, SMS, num_stages=2):
        pid_m, pid_n = _place(tile, GROUP * num_n, num_m, GROUP)
        offs_m = pid_m * BM + tl.arange(0, BM)
        offs_n = pid_n * BN + tl.arange(0, BN)
        offs_m = tl.where(offs_m < M, offs_m, 0)
        offs_n = tl.where(offs_n < N, offs_n, 0)
        offs_m = tl.max_contiguous(tl.multiple_of(offs_m, BM), BM)
        offs_n = tl.max_contiguous(tl.multiple_of(offs_n, BN), BN)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for ki in range(k_tiles):
            offs_k = ki * BK + tl.arange(0, BK)
            a = tl.load(a_ptr + offs_m[:, None] * s_am + offs_k[None, :] * s_ak, mask=offs_k[None, :] < K, other=0.0)
            b = tl.load(b_ptr + offs_k[:, None] * s_bk + offs_n[None, :] * s_bn, mask=offs_k[:, None] < K, other=0.0)
            acc += tl.dot(a, b, allow_tf32=False)
        rows = pid_m * BM + tl.arange(0, BM)
        cols = pid_n * BN + tl.arange(0, BN)
        where = c_ptr + s_cm * rows[:, None] + s_cn * cols[None, :]
        tl.store(where, acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < M) & (cols[None, :] < N))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_sms = torch.cuda.get_device_properties("cuda").multi_processor_count

    def forward(self, a, b):
        M, K = a.shape
        K, N = b.shape
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        grid = lambda META: (min(self.num_sms, triton.cdiv(M, META["BM"]) * triton.cdiv(N, META["BN"])),)
        persistent_matmul[grid](
            a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), BM=64, BN=32, BK=32, GROUP=8, SMS=self.num_sms,
            num_warps=4, num_stages=2,
        )
        return c
