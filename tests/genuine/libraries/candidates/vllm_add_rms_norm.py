# task: add_rms_norm
# style: residual and norm in one kernel, as an inference server has it; two outputs, a Python loop over blocks of columns
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fused_add_rms_norm_kernel(out_ptr, residual_out_ptr, input_ptr, residual_ptr, weight_ptr, epsilon, hidden_size,
                              BLOCK: tl.constexpr, NUM_BLOCKS: tl.constexpr):
    token = tl.program_id(0)
    variance = 0.0
    for i in tl.static_range(NUM_BLOCKS):
        offs = i * BLOCK + tl.arange(0, BLOCK)
        mask = offs < hidden_size
        x = tl.load(input_ptr + token * hidden_size + offs, mask=mask, other=0.0)
        x += tl.load(residual_ptr + token * hidden_size + offs, mask=mask, other=0.0)
        variance += tl.sum(x * x)
        tl.store(residual_out_ptr + token * hidden_size + offs, x, mask=mask)
    s_variance = tl.rsqrt(variance / hidden_size + epsilon)
    for i in tl.static_range(NUM_BLOCKS):
        offs = i * BLOCK + tl.arange(0, BLOCK)
        mask = offs < hidden_size
        x = tl.load(input_ptr + token * hidden_size + offs, mask=mask) + tl.load(residual_ptr + token * hidden_size + offs, mask=mask)
        w = tl.load(weight_ptr + offs, mask=mask)
        tl.store(out_ptr + token * hidden_size + offs, x * s_variance * w, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x, residual):
        orig_shape = x.shape
        x = x.view(-1, orig_shape[-1])
        tokens, hidden = x.shape
        out = torch.empty_like(x)
        residual_out = torch.empty_like(residual)
        block = min(256, triton.next_power_of_2(hidden))
        fused_add_rms_norm_kernel[(tokens,)](out, residual_out, x, residual, self.weight, 1e-6, hidden, BLOCK=block,
                                             NUM_BLOCKS=triton.cdiv(hidden, block))
        return out.view(orig_shape), residual_out
