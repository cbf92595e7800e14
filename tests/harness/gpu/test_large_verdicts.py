"""Verdicts at declared sizes that never pass through the host. Skipped where there is no GPU."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from attrs import evolve
from tritonrl.core.config import Config
from tritonrl.core.recipe.extensions import AUDIT
from tritonrl.harness.verification.verifier import Verifier, open_verifier

from ..kernels import LINEAR, POINTWISE, linear, pointwise

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

TALL = evolve(POINTWISE, task_id="tall", source=POINTWISE.source.replace("1024", "65536"))
"""1 GB of inputs and results."""
WIDE = evolve(LINEAR, task_id="wide", source=LINEAR.source.replace("BATCH = 128", "BATCH = 65536"))


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    """One verifier for the module."""
    config = Config()
    with open_verifier(evolve(config, verifier=evolve(config.verifier, backend="cuda"))) as opened:
        yield opened


def test_a_right_kernel_is_right_at_a_gigabyte(verifier: Verifier) -> None:
    """All of it is run and compared."""
    verdict = verifier.verify(TALL, pointwise(), AUDIT)
    assert (verdict.correct, verdict.declared) == (True, "run whole"), verdict.reason


def test_what_is_wrong_there_alone_is_seen(verifier: Verifier) -> None:
    """A kernel that leaves out what lies beyond 60 million elements is wrong."""
    source = pointwise().replace("mask = offsets < n", "mask = (offsets < n) & (offsets < 60000000)")
    assert source != pointwise()
    verdict = verifier.verify(TALL, source, AUDIT)
    assert (verdict.correct, verdict.where) == (False, "wrong_values@full") or verdict.where == "not_finite@full"


def test_parameters_arrive(verifier: Verifier) -> None:
    """A layer's weights are the reference's own."""
    verdict = verifier.verify(WIDE, linear(), AUDIT)
    assert verdict.correct, verdict.reason
