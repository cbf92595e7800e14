"""Scores lm-evaluation-harness's answers to `tritonrl_kernels` by the audit verifier."""

from __future__ import annotations

from typing import Any

from tritonrl import compute_score


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """Return whether the answer is correct and compiles, and its reward."""
    found = compute_score("tritonrl", results[0], doc["target"])
    return {"correct": found["correct"], "compiled": found["compiled"], "reward": found["score"]}
