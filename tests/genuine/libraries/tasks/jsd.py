import torch
import torch.nn as nn

ROWS = 256
CLASSES = 1000


class Model(nn.Module):
    def forward(self, log_q, log_p):
        q, p = log_q.exp(), log_p.exp()
        log_m = torch.log(0.5 * (q + p))
        return (0.5 * (p * (log_p - log_m) + q * (log_q - log_m))).sum(-1)


def get_inputs():
    return [torch.log_softmax(torch.randn(ROWS, CLASSES), -1), torch.log_softmax(torch.randn(ROWS, CLASSES), -1)]


def get_init_inputs():
    return []
