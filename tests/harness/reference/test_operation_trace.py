"""Which programs a trace takes for one computation: written in other words, and alike but not the same."""

from __future__ import annotations

import pytest
from tritonrl.core.task import Task
from tritonrl.harness.reference.graph.operation_trace import fingerprint_task

X = "torch.randn(6, 5, 4)"
TWO = "torch.randn(6, 5, 4), torch.randn(6, 5, 4)"
MATRICES = "torch.randn(6, 5), torch.randn(5, 7)"
BATCHES = "torch.randn(3, 6, 5), torch.randn(3, 5, 7)"
SHARED = "torch.randn(3, 6, 5), torch.randn(5, 7)"
IMAGES = "torch.randn(2, 6, 8, 9)"
HEADS = "torch.randn(2, 3, 8, 4), torch.randn(2, 3, 8, 4), torch.randn(2, 3, 8, 4)"
SQUARES = "torch.randn(6, 6), torch.randn(6, 6)"
ROWS = "torch.randn(6, 5)"
SHARES = "torch.rand(6, 5, 4), torch.rand(6, 5, 4)"
LINEAR = "self.l = nn.Linear(5, 7)"
WEIGHTS = "self.w = nn.Parameter(torch.randn(7, 5))\nself.b = nn.Parameter(torch.randn(7))"

Pair = tuple[str, ...]
"""Two bodies of `forward(x, y, z)`, the inputs, what the models hold, and the second one's inputs where they differ."""

SAME: list[Pair] = [
    ("F.relu(x)", "x.clamp(min=0)", X),
    ("F.relu(x)", "torch.maximum(x, torch.zeros_like(x))", X),
    ("F.relu(x)", "torch.max(x, torch.tensor(0.0))", X),
    ("F.relu(x)", "torch.where(x > 0, x, 0.0)", X),
    ("F.relu(x)", "torch.where(x > 0, x, torch.zeros_like(x))", X),
    ("F.relu(x)", "x * (x > 0)", X),
    ("F.relu(x)", "F.threshold(x, 0.0, 0.0)", X),
    ("F.relu(x)", "torch.where(x < 0, torch.zeros_like(x), x)", X),
    ("F.relu(x)", "x.masked_fill(x < 0, 0.0)", X),
    ("F.relu6(x)", "torch.clamp(F.relu(x), max=6.0)", X),
    ("F.hardtanh(x)", "torch.min(torch.max(x, torch.tensor(-1.0)), torch.tensor(1.0))", X),
    ("F.leaky_relu(x, 0.1)", "torch.where(x > 0, x, 0.1 * x)", X),
    ("F.elu(x)", "torch.where(x > 0, x, torch.exp(x) - 1)", X),
    ("F.elu(x)", "torch.where(x > 0, x, 1.0 * torch.expm1(x))", X),
    ("F.silu(x)", "x * torch.sigmoid(x)", X),
    ("F.silu(x)", "x / (1 + torch.exp(-x))", X),
    ("torch.sigmoid(x)", "1 / (1 + torch.exp(-x))", X),
    ("F.softplus(x)", "torch.log(1 + torch.exp(x))", X),
    ("F.softplus(x)", "torch.log1p(torch.exp(x))", X),
    ("F.logsigmoid(x)", "torch.log(torch.sigmoid(x))", X),
    ("F.logsigmoid(x)", "-F.softplus(-x)", X),
    ("F.mish(x)", "x * torch.tanh(F.softplus(x))", X),
    ("F.hardswish(x)", "x * F.relu6(x + 3) / 6", X),
    ("F.hardsigmoid(x)", "F.relu6(x + 3) / 6", X),
    ("F.gelu(x)", "0.5 * x * (1 + torch.erf(x / math.sqrt(2.0)))", X),
    (
        "F.gelu(x, approximate='tanh')",
        "0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))",
        X,
    ),
    ("x @ y", "torch.matmul(x, y)", MATRICES),
    ("x @ y", "torch.einsum('ik,kj->ij', x, y)", MATRICES),
    ("x @ y", "F.linear(x, y.t())", MATRICES),
    ("x @ y", "torch.bmm(x[None], y[None])[0]", MATRICES),
    ("x @ y", "(y.T @ x.T).T", MATRICES),
    ("x @ y", "torch.bmm(x, y)", BATCHES),
    ("x @ y", "torch.einsum('bik,bkj->bij', x, y)", BATCHES),
    ("x @ y", "torch.einsum('bik,kj->bij', x, y)", SHARED),
    ("x @ y", "F.linear(x, y.t())", SHARED),
    ("x @ y", "torch.tensordot(x, y, dims=1)", SHARED),
    ("x @ y", "(x.reshape(-1, x.shape[-1]) @ y).reshape(x.shape[0], x.shape[1], -1)", SHARED),
    ("x @ y.transpose(-2, -1)", "torch.einsum('bhik,bhjk->bhij', x, y)", "torch.randn(2,3,4,5), torch.randn(2,3,6,5)"),
    ("torch.einsum('bijl,lk->bijk', x, y)", "x @ y", "torch.randn(2,3,4,5), torch.randn(5,6)"),
    ("x @ y", "torch.mv(x, y)", "torch.randn(6, 5), torch.randn(5)"),
    ("x @ y", "(x @ y.unsqueeze(1)).squeeze(1)", "torch.randn(6, 5), torch.randn(5)"),
    ("torch.dot(x, y)", "(x * y).sum()", "torch.randn(6), torch.randn(6)"),
    ("self.l(x)", "x @ self.w.T + self.b", ROWS, LINEAR, WEIGHTS),
    ("self.l(x)", "torch.addmm(self.b, x, self.w.t())", ROWS, LINEAR, WEIGHTS),
    ("self.l(x)", "torch.einsum('bi,oi->bo', x, self.w) + self.b", ROWS, LINEAR, WEIGHTS),
    ("self.l(x)", "x @ self.w.T + self.b", "torch.randn(2, 6, 5)", LINEAR, WEIGHTS),
    ("x.mean(-1)", "x.sum(-1) / x.shape[-1]", X),
    ("x.mean((1, 2))", "x.mean(2).mean(1)", X),
    ("x.sum((1, 2))", "x.sum(1).sum(1)", X),
    ("x.mean((2, 3))", "F.adaptive_avg_pool2d(x, 1).flatten(1)", IMAGES),
    ("x.mean((2, 3))", "x.view(x.size(0), x.size(1), -1).mean(2)", IMAGES),
    ("x.mean((2, 3))", "x.mean(-1).mean(-1)", IMAGES),
    ("x.mean((2, 3), keepdim=True)", "nn.AdaptiveAvgPool2d((1, 1))(x)", IMAGES),
    ("x.amax((2, 3))", "F.adaptive_max_pool2d(x, 1).flatten(1)", IMAGES),
    ("x.mean((2, 3))", "F.avg_pool2d(x, (8, 9)).squeeze()", IMAGES),
    ("x.max(dim=1)[0]", "x.amax(1)", X),
    ("torch.max(x, dim=1).values", "torch.amax(x, dim=1, keepdim=True).squeeze(1)", X),
    ("x.max(dim=1)[1]", "x.argmax(1)", X),
    ("x.max()", "x.amax()", X),
    ("F.softmax(x, -1)", "torch.exp(x) / torch.exp(x).sum(-1, keepdim=True)", X),
    ("F.softmax(x, -1)", ("e = torch.exp(x - x.max(-1, keepdim=True)[0])\nreturn e / e.sum(-1, keepdim=True)"), X),
    ("F.softmax(x, -1)", "torch.exp(F.log_softmax(x, -1))", X),
    ("F.log_softmax(x, 1)", "torch.log(F.softmax(x, 1))", X),
    ("F.log_softmax(x, 1)", "x - torch.logsumexp(x, 1, keepdim=True)", X),
    ("F.log_softmax(x, 1)", ("z = x - x.amax(1, keepdim=True)\nreturn z - z.exp().sum(1, keepdim=True).log()"), X),
    ("torch.logsumexp(x, 1)", "torch.log(torch.exp(x).sum(1))", X),
    (
        "torch.logsumexp(x, 1)",
        ("m = x.amax(1, keepdim=True)\nreturn (m + (x - m).exp().sum(1, keepdim=True).log()).squeeze(1)"),
        X,
    ),
    ("F.softmin(x, 1)", "F.softmax(-x, dim=1)", X),
    ("x ** 2", "x * x", X),
    ("x ** 2", "torch.square(x)", X),
    ("x ** 3", "x * x * x", X),
    ("x ** 0.5", "x.sqrt()", X),
    ("x.rsqrt()", "1 / x.sqrt()", X),
    ("x ** -1", "1 / x", X),
    ("x.rsqrt()", "x ** -0.5", X),
    ("x - y", "x + (-y)", TWO),
    ("x - y", "-y + x", TWO),
    ("x - y", "-(y - x)", TWO),
    ("x - y", "torch.add(x, y, alpha=-1)", TWO),
    ("x - y", "x + y * -1", TWO),
    ("x - y - 2.0", "x - (y + 2.0)", TWO),
    ("(x + 1) - y", "(x - y) + 1", TWO),
    ("x / y", "x * y.reciprocal()", TWO),
    ("x / y", "x * (1 / y)", TWO),
    ("x / y / 3", "x / (3 * y)", TWO),
    ("x / 2", "x * 0.5", X),
    ("2 / x", "x.reciprocal() * 2", X),
    ("2 - x", "-x + 2", X),
    ("-x * y", "-(x * y)", TWO),
    ("x - 0.5 * y", "x + y * (-0.5)", TWO),
    ("x + y * 2", "torch.add(x, y, alpha=2)", TWO),
    ("torch.addcmul(x, x, y)", "x + x * y", TWO),
    ("torch.lerp(x, y, 0.3)", "x + 0.3 * (y - x)", TWO),
    ("torch.rsub(x, y)", "y - x", TWO),
    ("x.norm(dim=1)", "torch.sqrt((x * x).sum(1))", X),
    ("x.norm(p=1, dim=1)", "x.abs().sum(1)", X),
    ("F.normalize(x, dim=1)", "x / x.norm(dim=1, keepdim=True).clamp_min(1e-12)", X),
    ("F.normalize(x, p=1, dim=1)", "x / x.abs().sum(1, keepdim=True).clamp(min=1e-12)", X),
    ("F.mse_loss(x, y)", "((x - y) ** 2).mean()", TWO),
    ("F.mse_loss(x, y)", "((x - y) ** 2).sum() / x.numel()", TWO),
    ("F.mse_loss(x, y)", "nn.MSELoss()(x, y)", TWO),
    ("F.mse_loss(x, y, reduction='none').mean()", "F.mse_loss(x, y)", TWO),
    ("F.l1_loss(x, y)", "(x - y).abs().mean()", TWO),
    ("F.l1_loss(x, y)", "(y - x).abs().mean()", TWO),
    ("F.soft_margin_loss(x, y)", "F.softplus(-x * y).mean()", TWO),
    ("F.kl_div(x, y, log_target=True, reduction='sum')", "(y.exp() * (y - x)).sum()", TWO),
    ("F.huber_loss(x, y)", "F.smooth_l1_loss(x, y)", TWO),
    (
        "F.cosine_similarity(x, y, dim=-1)",
        "(x * y).sum(-1) / (x.norm(dim=-1).clamp_min(1e-8) * y.norm(dim=-1).clamp_min(1e-8))",
        TWO,
    ),
    ("F.binary_cross_entropy(x, y)", "-(y * torch.log(x) + (1 - y) * torch.log(1 - x)).mean()", SHARES),
    (
        "F.layer_norm(x, (4,))",
        "(x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5)",
        X,
    ),
    (
        "self.n(x)",
        (
            "u = x.mean(-1, keepdim=True)\n"
            "s = (x - u).pow(2).mean(-1, keepdim=True)\n"
            "return self.w * ((x - u) / torch.sqrt(s + 1e-5)) + self.b"
        ),
        X,
        "self.n = nn.LayerNorm(4)",
        ("self.w = nn.Parameter(torch.ones(4))\nself.b = nn.Parameter(torch.zeros(4))"),
    ),
    (
        "self.n(x)",
        "x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.w",
        X,
        "self.n = nn.RMSNorm(4, eps=1e-6)",
        "self.w = nn.Parameter(torch.ones(4))",
    ),
    (
        "self.n(x)",
        "self.w * (x / (torch.mean(x ** 2, dim=-1, keepdim=True) + 1e-6).sqrt())",
        X,
        "self.n = nn.RMSNorm(4, eps=1e-6)",
        "self.w = nn.Parameter(torch.ones(4))",
    ),
    (
        "self.n(x)",
        (
            "(x - self.m[None, :, None, None]) / torch.sqrt(self.v[None, :, None, None] + 1e-5) * "
            "self.w[None, :, None, None] + self.b[None, :, None, None]"
        ),
        IMAGES,
        "self.n = nn.BatchNorm2d(6).eval()",
        "self.m, self.v, self.w, self.b = (nn.Parameter(torch.rand(6)) for _ in range(4))",
    ),
    (
        "F.scaled_dot_product_attention(x, y, z)",
        "torch.softmax(x @ y.transpose(-2, -1) / x.shape[-1] ** 0.5, dim=-1) @ z",
        HEADS,
    ),
    ("F.scaled_dot_product_attention(x, y, z)", "torch.softmax((x * x.shape[-1] ** -0.5) @ y.mT, dim=-1) @ z", HEADS),
    (
        "F.scaled_dot_product_attention(x, y, z, is_causal=True)",
        (
            "s = x @ y.transpose(-2, -1) / x.shape[-1] ** 0.5\n"
            "m = torch.ones(s.shape[-2:], dtype=torch.bool).tril()\n"
            "return torch.softmax(s.masked_fill(~m, float('-inf')), dim=-1) @ z"
        ),
        HEADS,
    ),
    (
        "F.scaled_dot_product_attention(x, y, z, is_causal=True)",
        (
            "s = torch.einsum('bhqd,bhkd->bhqk', x, y) / 2\n"
            "m = torch.triu(torch.ones(8, 8), diagonal=1).bool()\n"
            "return torch.einsum('bhqk,bhkd->bhqd', s.masked_fill(m, float('-inf')).softmax(-1), z)"
        ),
        HEADS,
    ),
    ("F.scaled_dot_product_attention(x, y, z)", "F.scaled_dot_product_attention(x, y, z, scale=0.3)", HEADS),
    ("x.clone().exp()", "x.exp()", X),
    ("x.float().exp()", "x.exp()", X),
    ("x.view(6, 20).view(6, 5, 4).exp()", "x.exp()", X),
    ("x.flatten(1).exp().view(6, 5, 4)", "x.exp()", X),
    ("x.detach().exp()", "x.exp()", X),
    ("x.unsqueeze(0).exp().squeeze(0)", "x.exp()", X),
    ("x.view(6, 20).sum(1)", "x.sum((1, 2))", X),
    ("x.permute(2, 0, 1).permute(1, 2, 0).exp()", "x.exp()", X),
    ("F.dropout(x.exp(), 0.5, training=False)", "x.exp()", X),
    ("(x + 0).exp()", "x.exp()", X),
    ("(x * 1.0).exp()", "x.exp()", X),
    (("for _ in range(3): x = torch.sin(x)\nreturn x"), "torch.sin(torch.sin(torch.sin(x)))", X),
    ("F.glu(x, 1)", ("a, b = x.chunk(2, 1)\nreturn a * b.sigmoid()"), "torch.randn(6, 8, 4)"),
    ("F.max_pool2d(x, 2)", "F.max_pool2d(x, 2, return_indices=True)[0]", IMAGES),
    (
        "self.c(x)",
        "F.conv2d(x, self.w) + self.b.view(1, -1, 1, 1)",
        IMAGES,
        "self.c = nn.Conv2d(6, 7, 3)",
        ("self.w = nn.Parameter(torch.randn(7, 6, 3, 3))\nself.b = nn.Parameter(torch.randn(7))"),
    ),
    (
        "torch.bmm(x, y.unsqueeze(-1)).squeeze(-1)",
        "torch.einsum('bmk,bk->bm', x, y)",
        "torch.randn(3, 6, 5), torch.randn(3, 5)",
    ),
    ("torch.var(x, 1)", "((x - x.mean(1, keepdim=True)) ** 2).sum(1) / (x.shape[1] - 1)", X),
    ("x.std(1)", "x.var(1).sqrt()", X),
    (
        "F.prelu(x, self.w)",
        "torch.where(x > 0, x, self.w * x)",
        X,
        "self.w = nn.Parameter(torch.rand(1))",
        "self.w = nn.Parameter(torch.rand(1))",
    ),
]

OTHER: list[Pair] = [
    ("F.relu(x)", "F.leaky_relu(x)", X),
    ("F.relu(x)", "-F.relu(-x)", X),
    ("F.relu(x)", "torch.where(x > 0, x, -x)", X),
    ("F.relu(x)", "torch.where(x > 0, 1.0, 0.0)", X),
    ("F.relu(x) + y", "F.relu(x + y)", TWO),
    ("F.silu(x)", "torch.sigmoid(x)", X),
    ("F.gelu(x)", "F.gelu(x, approximate='tanh')", X),
    ("torch.maximum(x, y)", "torch.minimum(x, y)", TWO),
    ("x - y", "x + y", TWO),
    ("x - y", "y - x * y", TWO),
    ("x ** 2 * y", "(x * y) ** 2", TWO),
    ("x.sqrt()", "x.rsqrt()", X),
    ("x - y.exp()", "x + y.exp()", TWO),
    ("x @ y", "x.T @ y", SQUARES),
    ("x @ y", "x @ y.T", SQUARES),
    ("x @ y", "y @ x @ x", SQUARES),
    ("x.triu() @ y", "x.tril() @ y", SQUARES),
    ("x @ y", "x @ y", BATCHES, "", "", MATRICES),
    ("x.mean(-1)", "x.sum(-1)", X),
    ("x.sum(-1)", "x.sum(-2)", X),
    ("x.max(dim=1)[0]", "x.max(dim=1)[1]", X),
    ("x.view(30, 4).sum(0)", "x.view(6, 20).sum(0)", X),
    ("x.view(30, 4).sum(0)", "x.sum(0)", X),
    ("x.view(6, 20).softmax(1)", "x.softmax(-1)", X),
    ("x.view(6, 20).sum(1)", "x.sum(1)", X),
    ("x.view(30, 4).cumsum(0).view(6, 5, 4)", "x.cumsum(1)", X),
    ("x.view(5, 6, 4).sum(1)", "x.sum(1)", X),
    ("x.mean(1).amax(1)", "x.amax(1).mean(1)", X),
    ("F.softmax(x, 1)", "F.softmax(x, -1)", X),
    ("F.softmax(x, 1)", "F.log_softmax(x, 1)", X),
    ("F.softmax(x, 1)", "F.softmax(-x, 1)", X),
    ("F.softmax(x, 1)", "x.exp()", X),
    ("x.exp() / x.exp().sum(1, keepdim=True)", "x.exp() / x.exp().sum(2, keepdim=True)", X),
    ("(x - x.amax(1, keepdim=True)).exp()", "x.exp()", X),
    ("torch.logsumexp(x, 1)", "x.exp().sum(1)", X),
    ("(x - x.amax(2, keepdim=True)).exp() / x.exp().sum(1, keepdim=True)", "x.softmax(1)", X),
    ("F.mse_loss(x, y)", "F.mse_loss(x, y, reduction='sum')", TWO),
    ("F.cosine_similarity(x, y, dim=1)", "F.cosine_similarity(x, y, dim=2)", TWO),
    ("x.norm(dim=1)", "x.norm(p=1, dim=1)", X),
    ("x.norm(dim=1)", "(x * x).sum(1)", X),
    ("self.n(x)", "self.n(x)", IMAGES, "self.n = nn.GroupNorm(3, 6)", "self.n = nn.InstanceNorm2d(6)"),
    ("F.layer_norm(x, (4,))", "F.layer_norm(x, (5, 4))", X),
    ("self.n(x)", "self.n(x)", IMAGES, "self.n = nn.BatchNorm2d(6)", "self.n = nn.BatchNorm2d(6).eval()"),
    ("F.layer_norm(x, (4,))", "self.n(x)", X, "", "self.n = nn.LayerNorm(4)"),
    ("F.scaled_dot_product_attention(x, y, z)", "F.scaled_dot_product_attention(x, y, z, is_causal=True)", HEADS),
    ("F.scaled_dot_product_attention(x, y, z)", "torch.softmax(x @ y.transpose(-2, -1), dim=-2) @ z", HEADS),
    ("F.scaled_dot_product_attention(x, y, z)", "(x @ y.transpose(-2, -1) / 2) @ z", HEADS),
    ("F.avg_pool2d(x, 2)", "F.max_pool2d(x, 2)", IMAGES),
    ("F.max_pool2d(x, (1, 2))", "F.max_pool2d(x, 2)", IMAGES),
    ("self.c(x)", "self.c(x)", IMAGES, "self.c = nn.Conv2d(6, 6, 3)", "self.c = nn.Conv2d(6, 6, 3, groups=6)"),
    ("self.c(x)", "self.c(x)", IMAGES, "self.c = nn.Conv2d(6, 6, 3)", "self.c = nn.ConvTranspose2d(6, 6, 3)"),
    ("self.c(x)", "self.c(x)", IMAGES, "self.c = nn.Conv2d(6, 6, 3)", "self.c = nn.Conv2d(6, 6, 1)"),
    ("self.c(x)", "self.c(x)", IMAGES, "self.c = nn.Conv2d(6, 6, 3)", "self.c = nn.Conv2d(6, 6, 3, bias=False)"),
    ("torch.cumsum(x, 1)", "torch.cumsum(x, 2)", X),
    ("torch.cumsum(x, 1)", "torch.cumsum(x * (y > 0), 1)", TWO),
    (
        "x + self.b",
        "x + self.b",
        IMAGES,
        "self.b = nn.Parameter(torch.randn(6, 1, 1))",
        "self.b = nn.Parameter(torch.randn(9))",
    ),
    (
        "x * self.b",
        "x * self.b",
        X,
        "self.b = nn.Parameter(torch.randn(4))",
        "self.b = nn.Parameter(torch.randn(5, 4))",
    ),
    ("x - x.mean(1, keepdim=True)", "x - x.mean(2, keepdim=True)", X),
    ("F.relu(x) @ y", "F.relu(x @ y)", MATRICES),
    ("self.l(F.relu(self.l(x)))", "self.l(F.relu(x))", ROWS, "self.l = nn.Linear(5, 5)", "self.l = nn.Linear(5, 5)"),
    (
        "self.l(F.relu(self.l(x)))",
        "self.m(F.relu(self.l(x)))",
        ROWS,
        "self.l = nn.Linear(5, 5)",
        "self.l = nn.Linear(5, 5); self.m = nn.Linear(5, 5)",
    ),
    ("torch.where(x > 0, x, y)", "torch.where(x > 0, y, x)", TWO),
    ("torch.cat([x, y], 1)", "torch.cat([x, y], 2)", TWO),
    ("x[:, :2]", "x[:, 2:]", X),
    ("torch.sort(x, 1)[0]", "torch.sort(x, 1, descending=True)[0]", X),
    ("x.roll(1, 1)", "x.flip(1)", X),
]


def _program(body: str, inputs: str, held: str) -> Task:
    names = ", ".join("xyz"[: inputs.count("torch.ra")])
    lines = body if "return " in body else f"return {body}"
    source = f"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def __init__(self):
        super().__init__()
{_indent(held)}

    def forward(self, {names}):
{_indent(lines)}

def get_inputs():
    return [{inputs}]

def get_init_inputs():
    return []
"""
    return Task(task_id="made-up", level=1, family="file", description="made up", source=source)


def _indent(lines: str) -> str:
    return "\n".join(f"        {line}" for line in lines.split("\n"))


def _hashes(pair: Pair) -> tuple[str, str]:
    one, other, inputs, held, other_held, other_inputs = (*pair, *[""] * (6 - len(pair)))
    first = fingerprint_task(_program(one, inputs, held))
    return first, fingerprint_task(_program(other, other_inputs or inputs, other_held))


@pytest.mark.parametrize("pair", SAME, ids=lambda pair: f"{pair[0]} = {pair[1]}"[:90])
def test_one_computation_in_other_words_is_one(pair: Pair) -> None:
    """A function, a module, a formula, another order, a view there and back: one graph."""
    one, other = _hashes(pair)
    assert one == other


@pytest.mark.parametrize("pair", OTHER, ids=lambda pair: f"{pair[0]} or {pair[1]}"[:90])
def test_what_is_alike_is_not_one(pair: Pair) -> None:
    """Another function, operand, dimension or order that matters is another graph."""
    one, other = _hashes(pair)
    assert one != other
