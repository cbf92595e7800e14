"""Timing noise of a known size, injected into a speedup on purpose: the sweep of the fourth research question.

Each of the two runtimes is multiplied by a log-normal factor of median 1 and the given coefficient of variation, drawn
independently, as two noisy measurements are. The draw depends on the seed alone and the size only scales it, so that
with one seed the noise of 30% is that of 5%, larger: the runs of a sweep differ in nothing else.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import evolve

from ..verdict import Verdict


def noise_factor(cv: float, seed: int) -> float:
    """Draw the factor of a speedup whose two runtimes are measured with coefficient of variation `cv`."""
    reference, candidate = np.random.default_rng(seed).standard_normal(2)
    return math.exp(math.sqrt(math.log1p(cv * cv)) * float(reference - candidate))


def with_noise(verdict: Verdict, factor: float) -> Verdict:
    """Multiply a verdict's speedups by a factor; what is null stays null, and nothing else changes."""

    def scaled(speedup: float | None) -> float | None:
        return None if speedup is None else speedup * factor

    return evolve(
        verdict,
        speedup=scaled(verdict.speedup),
        estimated_speedup=scaled(verdict.estimated_speedup),
        compiled_speedup=scaled(verdict.compiled_speedup),
    )
