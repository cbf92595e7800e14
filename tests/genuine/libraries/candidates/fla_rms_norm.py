# task: rms_norm
# style: host of a library of linear attention: several rows a program under autotune, heuristics for absent arguments
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.heuristics({
    'HAS_WEIGHT': lambda args: args['w'] is not None,
    'HAS_BIAS': lambda args: args['b'] is not None,
})
@triton.autotune(
    configs=[triton.Config({'BT': BT}, num_warps=num_warps) for BT in [2, 4] for num_warps in [4]],
    key=['D', 'IS_RMS_NORM'],
)
@triton.jit(do_not_specialize=['T'])
def layer_norm_gated_fwd_kernel(x, y, w, b, rstd, eps, T, D: tl.constexpr, BT: tl.constexpr, BD: tl.constexpr,
                                IS_RMS_NORM: tl.constexpr, HAS_WEIGHT: tl.constexpr, HAS_BIAS: tl.constexpr):
    i_t = tl.program_id(0)
    o_d = tl.arange(0, BD)
    m_d = o_d < D
    p_x = tl.make_block_ptr(x, (T, D), (D, 1), (i_t * BT, 0), (BT, BD), (1, 0))
    b_x = tl.load(p_x, boundary_check=(0, 1)).to(tl.float32)
    if not IS_RMS_NORM:
        b_mean = tl.sum(b_x, axis=1) / D
        b_xbar = tl.where(m_d[None, :], b_x - b_mean[:, None], 0.0)
        b_var = tl.sum(b_xbar * b_xbar, axis=1) / D
    else:
        b_xbar = tl.where(m_d[None, :], b_x, 0.0)
        b_var = tl.sum(b_xbar * b_xbar, axis=1) / D
    b_rstd = 1 / tl.sqrt(b_var + eps)
    p_rstd = tl.make_block_ptr(rstd, (T,), (1,), (i_t * BT,), (BT,), (0,))
    tl.store(p_rstd, b_rstd.to(p_rstd.dtype.element_ty), boundary_check=(0,))
    b_y = b_xbar * b_rstd[:, None]
    if HAS_WEIGHT:
        b_w = tl.load(w + o_d, mask=m_d).to(tl.float32)
        b_y = b_y * b_w[None, :]
    if HAS_BIAS:
        b_b = tl.load(b + o_d, mask=m_d).to(tl.float32)
        b_y = b_y + b_b[None, :]
    p_y = tl.make_block_ptr(y, (T, D), (D, 1), (i_t * BT, 0), (BT, BD), (1, 0))
    tl.store(p_y, b_y.to(p_y.dtype.element_ty), boundary_check=(0, 1))


class ModelNew(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x):
        T, D = x.shape
        y = torch.empty_like(x)
        rstd = torch.empty((T,), dtype=torch.float, device=x.device)

        def grid(meta):
            return (triton.cdiv(T, meta['BT']),)

        layer_norm_gated_fwd_kernel[grid](x, y, self.weight, None, rstd, self.eps, T, D, BD=triton.next_power_of_2(D),
                                          IS_RMS_NORM=True)
        return y
