# task: swiglu
# style: slices with steps of the host's tensors, a result written into a slice of a larger buffer and copied out
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(g_ptr, v_ptr, out_ptr, s_in, s_out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(g_ptr + row * s_in + c, mask=c < n)
    v = tl.load(v_ptr + row * s_in + c, mask=c < n)
    tl.store(out_ptr + row * s_out + c, g * tl.sigmoid(g) * v, mask=c < n)


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.shape[-1] // 2
        gate, value = x[:, :n], x[..., n:]
        padded = torch.zeros((x.shape[0], n + 8), device=x.device, dtype=x.dtype)
        window = padded[:, 4:-4]
        swiglu_kernel[(x.shape[0], triton.cdiv(n, 128))](gate, value, window, x.stride(0), padded.stride(0), n, BLOCK=128)
        out = torch.empty((x.shape[0], n), device=x.device, dtype=x.dtype)
        out[:] = window
        return out
