# task: penalties
# style: where inside where, int32 counts, a temperature a row
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def apply_penalties(logits, counts, temp, out, vocab, rep, presence, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m = c < vocab
    x = tl.load(logits + t * vocab + c, mask=m, other=0.0)
    n = tl.load(counts + t * vocab + c, mask=m, other=0)
    x = tl.where(n > 0, tl.where(x > 0, x / rep, x * rep), x)
    x -= presence * n.to(tl.float32)
    tl.store(out + t * vocab + c, x / tl.load(temp + t), mask=m)


class ModelNew(nn.Module):
    def forward(self, logits, counts, temperature):
        out = torch.empty_like(logits)
        tokens, vocab = logits.shape
        apply_penalties[(tokens, triton.cdiv(vocab, 1024))](logits, counts, temperature, out, vocab, 1.2, 0.5, BLOCK=1024)
        return out
