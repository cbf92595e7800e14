import torch
import torch.nn as nn

TOKENS = 16
VOCABULARY = 3000


class Model(nn.Module):
    def forward(self, logits, counts, temperature):
        logits = torch.where(counts > 0, torch.where(logits > 0, logits / 1.2, logits * 1.2), logits)
        logits = logits - 0.5 * counts
        return logits / temperature[:, None]


def get_inputs():
    counts = torch.randint(0, 3, (TOKENS, VOCABULARY), dtype=torch.int32)
    return [torch.randn(TOKENS, VOCABULARY), counts, torch.rand(TOKENS) + 0.5]


def get_init_inputs():
    return []
