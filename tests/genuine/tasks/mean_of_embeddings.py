import torch
import torch.nn as nn

VOCABULARY = 5000
WIDTH = 64
BATCH = 128
ITEMS = 20


class Model(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)

    def forward(self, items):
        return self.table(items).mean(dim=1)


def get_inputs():
    return [torch.randint(0, VOCABULARY, (BATCH, ITEMS))]


def get_init_inputs():
    return [VOCABULARY, WIDTH]
