import torch
import torch.nn as nn

TOKENS = 500
VOCABULARY = 1000
WIDTH = 96


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)

    def forward(self, tokens):
        return self.table(tokens) * 2.0


def get_inputs():
    return [torch.randint(0, VOCABULARY, (TOKENS,))]


def get_init_inputs():
    return [VOCABULARY, WIDTH]
