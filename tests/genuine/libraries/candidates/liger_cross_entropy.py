# task: cross_entropy
# style: ignore_index and early return, an online softmax over blocks, scalar loads at the label, strides of all tensors
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def liger_cross_entropy_kernel(X_ptr, X_stride, Y_ptr, Y_stride, loss_ptr, loss_stride, n_cols, ignore_index,
                               label_smoothing: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    program_id = tl.program_id(0).to(tl.int64)
    Y_ptr += program_id * Y_stride
    y = tl.load(Y_ptr)
    X_ptr += program_id * X_stride
    loss_ptr += program_id * loss_stride
    if y == ignore_index:
        tl.store(loss_ptr, 0.0)
        return
    m = float("-inf")
    d = 0.0
    ori_X_y = tl.load(X_ptr + y).cast(tl.float32)
    for i in range(0, n_cols, BLOCK_SIZE):
        X_offsets = i + tl.arange(0, BLOCK_SIZE)
        X_block = tl.load(X_ptr + X_offsets, mask=X_offsets < n_cols, other=float("-inf")).cast(tl.float32)
        block_max = tl.max(X_block)
        m_new = tl.maximum(m, block_max)
        d = d * tl.exp(m - m_new) + tl.sum(tl.exp(X_block - m_new))
        m = m_new
    lse = m + tl.log(d)
    loss = lse - ori_X_y
    tl.store(loss_ptr, loss)


class LigerCrossEntropyFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, _input, target, ignore_index=-100, label_smoothing=0.0):
        BT, V = _input.shape
        BLOCK_SIZE = min(65536 // 2, triton.next_power_of_2(V))
        loss_1d = torch.zeros(BT, dtype=_input.dtype, device=_input.device)
        if _input.stride(-1) != 1:
            _input = _input.contiguous()
        if target.stride(-1) != 1:
            target = target.contiguous()
        liger_cross_entropy_kernel[(BT,)](
            X_ptr=_input, X_stride=_input.stride(-2), Y_ptr=target, Y_stride=target.stride(-1), loss_ptr=loss_1d,
            loss_stride=loss_1d.stride(-1), n_cols=V, ignore_index=ignore_index, label_smoothing=label_smoothing,
            BLOCK_SIZE=BLOCK_SIZE, num_warps=32)
        return loss_1d


class ModelNew(nn.Module):
    def forward(self, logits, labels):
        return LigerCrossEntropyFunction.apply(logits, labels)
