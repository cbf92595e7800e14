# task: l2_norm
# style: rows in blocks through block pointers, autotuned, a warning when the width is large
import warnings

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(configs=[triton.Config({"BT": BT}, num_warps=w) for BT in (8, 16) for w in (2,)], key=["D"])
@triton.jit
def l2norm_fwd_kernel(x, y, T, eps, D: tl.constexpr, BD: tl.constexpr, BT: tl.constexpr):
    i_t = tl.program_id(0)
    p_x = tl.make_block_ptr(x, (T, D), (D, 1), (i_t * BT, 0), (BT, BD), (1, 0))
    b_x = tl.load(p_x, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
    b_var = tl.sum(b_x * b_x, axis=1)
    b_y = b_x / tl.sqrt(b_var + eps)[:, None]
    p_y = tl.make_block_ptr(y, (T, D), (D, 1), (i_t * BT, 0), (BT, BD), (1, 0))
    tl.store(p_y, b_y.to(p_y.dtype.element_ty), boundary_check=(0, 1))


class ModelNew(nn.Module):
    def forward(self, x):
        shape = x.shape
        x = x.view(-1, x.shape[-1])
        T, D = x.shape
        if D > 1024:
            warnings.warn(f"width {D} is large", RuntimeWarning)
        y = torch.empty_like(x)
        l2norm_fwd_kernel[lambda meta: (triton.cdiv(T, meta["BT"]),)](x, y, T, 1e-6, D=D, BD=triton.next_power_of_2(D))
        return y.view(shape)
