"""The soak feeds every kind of candidate and counts what is left."""

from __future__ import annotations

from tritonrl.core.config import Config
from tritonrl.harness.bench.verifier.soak import Census, render, soak_verifier


def test_soak_takes_stock_after_each_round() -> None:
    """Good, bad and hostile candidates leave no process, zombie or file, and each has an outcome."""
    seen: list[Census] = []
    figures = soak_verifier(Config(), 14, seed=0, jobs=2, on_progress=seen.append)
    assert figures.clean
    assert sum(figures.outcomes.values()) == figures.num_candidates == 14
    assert any(name.startswith("hostile: ") for name in figures.outcomes)
    assert [one.num_candidates for one in seen] == [14]
    assert 20 < figures.first.judge_mb == figures.max_judge_mb
    assert "a process or a file behind: 0" in "\n".join(render(figures))
