# task: int8_product
# style: integer dot with an int32 accumulator, scales of rows and columns after the loop
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_mm_kernel(a_ptr, b_ptr, sa_ptr, sb_ptr, c_ptr, M, N, K, ACC: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(axis=0)
    num_pid_n = tl.cdiv(N, BN)
    pid_m = pid // num_pid_n
    pid_n = pid % num_pid_n
    accumulator = tl.zeros((BM, BN), dtype=ACC)
    offs_am = pid_m * BM + tl.arange(0, BM).to(tl.int64)
    masks_am = offs_am < M
    offs_bn = pid_n * BN + tl.arange(0, BN).to(tl.int64)
    masks_bn = offs_bn < N
    offs_k = tl.arange(0, BK).to(tl.int64)
    for k in range(0, tl.cdiv(K, BK)):
        masks_k = offs_k < K
        a = tl.load(a_ptr + K * offs_am[:, None] + offs_k[None, :], mask=masks_am[:, None] & masks_k[None, :], other=0)
        b = tl.load(b_ptr + N * offs_k[:, None] + offs_bn[None, :], mask=masks_k[:, None] & masks_bn[None, :], other=0)
        accumulator = tl.dot(a, b, accumulator, out_dtype=ACC)
        offs_k += BK
    sa = tl.load(sa_ptr + offs_am, mask=masks_am, other=0.0)
    sb = tl.load(sb_ptr + offs_bn, mask=masks_bn, other=0.0)
    c = accumulator.to(tl.float32) * sa[:, None] * sb[None, :]
    tl.store(c_ptr + N * offs_am[:, None] + offs_bn[None, :], c, mask=masks_am[:, None] & masks_bn[None, :])


class ModelNew(nn.Module):
    def forward(self, a, b, a_scale, b_scale):
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), dtype=torch.float32, device=a.device)
        has_scalar = lambda x: x.shape[0] == 1 and x.ndim == 2
        assert not has_scalar(a_scale)
        scaled_mm_kernel[(triton.cdiv(M, 32) * triton.cdiv(N, 32),)](a, b, a_scale, b_scale, c, M, N, K, ACC=tl.int32, BM=32, BN=32, BK=32)
        return c
