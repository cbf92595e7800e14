"""There is no kernel at all.

Mechanism: 9
Task: l1-unary-7fce4ae6f9f1a504
Outcome: no_kernel
Stage: ast
"""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a):
        return torch.relu(a)
