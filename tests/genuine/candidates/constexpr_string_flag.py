# task: linear_gelu
# style: an activation chosen by a constexpr string; weight transposed in host code
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fused_linear(x, w, bias, out, M, N, K, sxm, sxk, swk, swn, ACT: tl.constexpr, USE_BIAS: tl.constexpr = True,
                 BLOCK_M: tl.constexpr = 16, BLOCK_N: tl.constexpr = 64, BLOCK_K: tl.constexpr = 16):
    pid_m, pid_n = tl.program_id(0), tl.program_id(1)
    m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.full((BLOCK_M, BLOCK_N), 0.0, dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        kk = start + k
        a = tl.load(x + m[:, None] * sxm + kk[None, :] * sxk, mask=(m[:, None] < M) & (kk[None, :] < K), other=0.0)
        b = tl.load(w + kk[:, None] * swk + n[None, :] * swn, mask=(kk[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    if USE_BIAS:
        acc = acc + tl.load(bias + n, mask=n < N, other=0.0)
    if ACT == "gelu":
        acc = acc * 0.5 * (1.0 + tl.math.erf(acc / tl.sqrt(2.0)))
    elif ACT == "relu":
        acc = tl.maximum(acc, 0)
    tl.store(out + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(nn.Module):
    ACT = "gelu"

    def __init__(self, inputs, outputs):
        super(ModelNew, self).__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x):
        wt = self.linear.weight.t()
        M, K = x.shape
        N = wt.shape[1]
        out = torch.empty(M, N, dtype=x.dtype, device=x.device)
        grid = (triton.cdiv(M, 16), triton.cdiv(N, 64))
        fused_linear[grid](x, wt, self.linear.bias, out, M, N, K, *x.stride(), *wt.stride(), ACT=self.ACT)
        return out
