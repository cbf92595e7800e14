# task: kl_div
# style: a reduction mode as a constexpr, logarithm of the larger of target and eps, partial sums in a loop
import torch
import torch.nn as nn
import triton
import triton.language as tl

_REDUCTION_MODE_NONE: tl.constexpr = tl.constexpr(0)
_REDUCTION_MODE_SUM: tl.constexpr = tl.constexpr(1)


@triton.jit
def _kldiv_kernel_forward(y_ptr, y_stride, gt_ptr, gt_stride, loss_ptr, n_cols, eps, BLOCK_SIZE: tl.constexpr,
                          log_target: tl.constexpr = False, reduction: tl.constexpr = _REDUCTION_MODE_SUM):
    pid = tl.program_id(0).to(tl.int64)
    y_ptr += pid * y_stride
    gt_ptr += pid * gt_stride
    base_offsets = tl.arange(0, BLOCK_SIZE)
    loss_sum = 0.0
    for i in range(0, n_cols, BLOCK_SIZE):
        offsets = i + base_offsets
        mask = offsets < n_cols
        y = tl.load(y_ptr + offsets, mask=mask, other=0.0)
        y_true = tl.load(gt_ptr + offsets, mask=mask, other=0.0)
        if not log_target:
            loss = y_true * (tl.log(tl.maximum(y_true, eps)) - y)
        else:
            loss = tl.exp(y_true) * (y_true - y)
        loss_sum += tl.sum(loss, axis=0)
    tl.store(loss_ptr + pid, loss_sum)


class ModelNew(nn.Module):
    def forward(self, log_p, target):
        BT, V = log_p.shape
        out = torch.zeros((BT,), device=log_p.device, dtype=torch.float32)
        _kldiv_kernel_forward[(BT,)](log_p, log_p.stride(0), target, target.stride(0), out, V, eps=1e-10,
                                     BLOCK_SIZE=min(1024, triton.next_power_of_2(V)), num_warps=8)
        return out
