"""Parameters are redrawn after recording, so that nothing that construction hides or fixes goes unnoticed."""

from __future__ import annotations

import pytest
from attrs import evolve
from tritonrl.core.outcome import Outcome
from tritonrl.core.recipe.extensions import AUDIT, VerifierSpec
from tritonrl.core.task import Task
from tritonrl.harness.verification.verifier import Verifier

from ..kernels import LINEAR, POINTWISE, linear, pointwise


def with_state(init: str, expression: str) -> Task:
    """A function of `x` and of something that `__init__` makes."""
    source = POINTWISE.source.replace(
        "    def forward(self, x):",
        f"    def __init__(self):\n        super().__init__()\n        {init}\n\n    def forward(self, x):",
    ).replace("2.0 * x * torch.sigmoid(x)", expression)
    return evolve(POINTWISE, task_id="test-state", source=source, dtypes=("float32",))


def solution(init: str, body: str, argument: str) -> str:
    """A kernel that reads one number through `s_ptr`."""
    source = pointwise(
        body,
        forward="out = torch.empty_like(x)\n        n = x.numel()\n"
        f"        kernel[(triton.cdiv(n, 128),)](x, {argument}, out, n, BLOCK=128)\n        return out",
    )
    source = source.replace("kernel(x_ptr, out_ptr", "kernel(x_ptr, s_ptr, out_ptr")
    return source.replace(
        "    def forward(self, x):",
        f"    def __init__(self):\n        super().__init__()\n        {init}\n\n    def forward(self, x):",
    )


STATES = {
    "a gain of zero": ("self.gain = nn.Parameter(torch.zeros(1))", "self.gain", "x + tl.load(s_ptr) * x", "x"),
    "a scale of one": ("self.scale = nn.Parameter(torch.tensor(1.0))", "self.scale", "x * tl.load(s_ptr)", "x"),
    "a running mean": ('self.register_buffer("mean", torch.zeros(1))', "self.mean", "x - tl.load(s_ptr)", "x"),
    "a running variance": (
        'self.register_buffer("var", torch.ones(1))',
        "self.var",
        "x / tl.sqrt(tl.load(s_ptr) + 1e-5)",
        "x",
    ),
}
EXPRESSIONS = {
    "a gain of zero": "x + self.gain * x",
    "a scale of one": "x * self.scale",
    "a running mean": "x - self.mean",
    "a running variance": "x / torch.sqrt(self.var + 1e-5)",
}


@pytest.mark.parametrize("name", STATES)
def test_what_construction_makes_neutral_must_be_applied(verifier: Verifier, name: str) -> None:
    """With the state applied it is right; without it, or with what construction put there, it is wrong."""
    init, argument, right, wrong = STATES[name]
    task = with_state(init, EXPRESSIONS[name])
    assert verifier.verify(task, solution(init, right, argument), AUDIT).correct
    assert verifier.verify(task, solution(init, wrong, argument), VerifierSpec()).outcome is Outcome.WRONG_VALUES
    kept = f"{init}\n        self.kept = {argument}.detach().clone()"
    baked = verifier.verify(task, solution(kept, right, "self.kept.to(x.device)"), VerifierSpec())
    assert baked.outcome is Outcome.WRONG_VALUES


def test_weights_that_init_has_copied_no_longer_fit(verifier: Verifier) -> None:
    """A linear layer that works on a copy of its seeded weights, kept outside the state dict, is wrong."""
    source = linear().replace(
        "self.linear = nn.Linear(num_inputs, num_outputs)",
        "self.linear = nn.Linear(num_inputs, num_outputs)\n        self.kept = self.linear.weight.detach().clone()",
    )
    assert verifier.verify(LINEAR, source, AUDIT).correct
    baked = source.replace("](x, self.linear.weight,", "](x, self.kept.to(x.device),")
    assert baked != source
    assert verifier.verify(LINEAR, baked, AUDIT).outcome is Outcome.WRONG_VALUES
