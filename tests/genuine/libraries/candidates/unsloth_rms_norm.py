# task: rms_norm
# style: host of a fine-tuning library: device guard by getattr, other = 0 with spaces, capital names, in-place casts
import torch
import torch.nn as nn
import triton
import triton.language as tl

MAX_FUSED_SIZE: int = 65536
next_power_of_2 = triton.next_power_of_2
_guard = getattr(torch, "cuda", None)


def torch_device(device):
    return torch.cuda.device(device)


@triton.jit
def _rms_layernorm_forward(
    Y, Y_row_stride: tl.constexpr,
    X, X_row_stride: tl.constexpr,
    W, W_row_stride: tl.constexpr,
    r, r_row_stride: tl.constexpr,
    n_cols: tl.constexpr, eps: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
):
    row_idx = tl.program_id(0)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    Y += row_idx * Y_row_stride
    X += row_idx * X_row_stride
    r += row_idx * r_row_stride
    X_row = tl.load(X + col_offsets, mask = mask, other = 0).to(tl.float32)
    W_row = tl.load(W + col_offsets, mask = mask, other = 0)
    row_var = tl.sum(X_row * X_row, axis = 0) / n_cols
    inv_var = tl.math.rsqrt(row_var + eps)
    tl.store(r, inv_var)
    normed = X_row * inv_var
    normed = normed.to(W_row.dtype)
    output = normed * W_row
    tl.store(Y + col_offsets, output, mask = mask)


class ModelNew(nn.Module):
    def __init__(self, hidden_size, eps = 1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, X):
        shape = X.shape
        dim: int = shape[-1]
        X = X.reshape(-1, dim)
        n_rows, n_cols = X.shape
        BLOCK_SIZE = next_power_of_2(n_cols)
        num_warps = 4 if BLOCK_SIZE < 2048 else 8
        device = X.device
        Y = torch.empty((n_rows, n_cols), dtype = X.dtype, device = device)
        r = torch.empty(n_rows, dtype = torch.float32, device = device)
        with torch_device(device):
            _rms_layernorm_forward[(n_rows,)](
                Y, Y.stride(0),
                X, X.stride(0),
                self.weight, self.weight.stride(0),
                r, r.stride(0),
                n_cols, self.variance_epsilon,
                BLOCK_SIZE = BLOCK_SIZE,
                num_warps = num_warps,
            )
        return Y.view(*shape)
