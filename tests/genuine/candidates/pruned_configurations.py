# task: matmul
# style: configurations pruned early and by a model of their cost, with a heuristic
import torch
import torch.nn as nn
import triton
import triton.language as tl


def _early(configs, named_args, **kwargs):
    K = named_args["K"]
    N = named_args["N"]
    kept = [
        c
        for c in configs
        if c.kwargs["BK"] <= triton.next_power_of_2(K) and c.kwargs["BN"] <= max(triton.next_power_of_2(N), 16)
    ]
    return kept or configs[:1]


def _model(M, N, K, BM, BN, BK, num_warps, num_stages, **kwargs):
    return triton.cdiv(M, BM) * triton.cdiv(N, BN) * K / (num_warps * num_stages)


@triton.autotune(
    configs=[
        triton.Config({"BM": m, "BN": n, "BK": k}, num_stages=s, num_warps=w)
        for m, n, k, s, w in ((32, 32, 16, 2, 2), (64, 32, 32, 3, 4), (32, 64, 32, 3, 4), (64, 64, 16, 2, 4))
    ],
    key=["M", "N", "K"],
    prune_configs_by={"early_config_prune": _early, "perf_model": _model, "top_k": 2},
)
@triton.heuristics({"EVEN_K": lambda args: args["K"] % args["BK"] == 0})
@triton.jit
def mm(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVEN_K: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        if EVEN_K:
            a = tl.load(a_ptr + (rm % M)[:, None] * K + rk[None, :])
            b = tl.load(b_ptr + rk[:, None] * N + (rn % N)[None, :])
        else:
            a = tl.load(a_ptr + (rm % M)[:, None] * K + rk[None, :], mask=rk[None, :] < K, other=0.0)
            b = tl.load(b_ptr + rk[:, None] * N + (rn % N)[None, :], mask=rk[:, None] < K, other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


class ModelNew(nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        mm[lambda META: (triton.cdiv(M, META["BM"]), triton.cdiv(N, META["BN"]))](a, b, c, M, N, K)
        return c
