# task: state_update
# style: flags for optional tensors by heuristics, two results, a softplus that is off
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.heuristics({"HAS_DT_BIAS": lambda args: args["dt_bias_ptr"] is not None})
@triton.heuristics({"BLOCK_SIZE_DSTATE": lambda args: triton.next_power_of_2(args["dstate"])})
@triton.jit
def _selective_scan_update_kernel(state_ptr, new_ptr, x_ptr, dt_ptr, dt_bias_ptr, A_ptr, B_ptr, C_ptr, out_ptr, dim, dstate,
                                  BLOCK_SIZE_M: tl.constexpr, HAS_DT_BIAS: tl.constexpr, BLOCK_SIZE_DSTATE: tl.constexpr):
    pid_m = tl.program_id(axis=0)
    pid_b = tl.program_id(axis=1)
    offs_m = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_n = tl.arange(0, BLOCK_SIZE_DSTATE)
    mask = (offs_m[:, None] < dim) & (offs_n[None, :] < dstate)
    at = pid_b * dim * dstate + offs_m[:, None] * dstate + offs_n[None, :]
    state = tl.load(state_ptr + at, mask=mask, other=0.0)
    x = tl.load(x_ptr + pid_b * dim + offs_m, mask=offs_m < dim, other=0.0).to(tl.float32)
    dt = tl.load(dt_ptr + pid_b * dim + offs_m, mask=offs_m < dim, other=0.0).to(tl.float32)
    if HAS_DT_BIAS:
        dt += tl.load(dt_bias_ptr + offs_m, mask=offs_m < dim, other=0.0).to(tl.float32)
    A = tl.load(A_ptr + offs_m[:, None] * dstate + offs_n[None, :], mask=mask, other=0.0).to(tl.float32)
    dA = tl.exp(A * dt[:, None])
    B = tl.load(B_ptr + pid_b * dstate + offs_n, mask=offs_n < dstate, other=0.0).to(tl.float32)
    C = tl.load(C_ptr + pid_b * dstate + offs_n, mask=offs_n < dstate, other=0.0).to(tl.float32)
    dB = B[None, :] * dt[:, None]
    state = state * dA + dB * x[:, None]
    tl.store(new_ptr + at, state, mask=mask)
    out = tl.sum(state * C[None, :], axis=1)
    tl.store(out_ptr + pid_b * dim + offs_m, out, mask=offs_m < dim)


class ModelNew(nn.Module):
    def forward(self, state, x, dt, a, b, c):
        batch, dim, dstate = state.shape
        assert x.shape == (batch, dim)
        assert dt.shape == x.shape
        out = torch.empty_like(x)
        new = torch.empty_like(state)
        grid = lambda META: (triton.cdiv(dim, META["BLOCK_SIZE_M"]), batch)
        _selective_scan_update_kernel[grid](state, new, x, dt, None, a, b, c, out, dim, dstate, BLOCK_SIZE_M=16, num_warps=4)
        return out, new
