"""Judges every attack by the audit verifier, under several seeds: `tritonrl bench attacks`.

Inputs, sizes and samples of programs are the seed's draw, so an attack that fails at some of them only is refused with
a probability, which one run cannot show. Here each round has a seed of its own; what was ever accepted is listed, and
so is every answer that the attack's header does not give.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence

from attrs import evolve, frozen

from ....core.config import Config
from ....core.corpus import render as render_task
from ....core.recipe.extensions import AUDIT
from ....core.verdict import Verdict
from .attack_files import Attack


@frozen(kw_only=True)
class Surprise:
    """An attack that was accepted, or refused with an answer that its header does not name."""

    attack: str
    seed: int
    is_accepted: bool
    answer: str


@frozen(kw_only=True)
class AttackFigures:
    """All rounds: `num_attacks` in each, one seed each."""

    backend: str
    num_attacks: int
    seeds: tuple[int, ...]
    surprises: tuple[Surprise, ...]
    wall_s: float

    @property
    def num_accepted(self) -> int:
        """Return verdicts that took an attack for a right kernel."""
        return sum(surprise.is_accepted for surprise in self.surprises)


def judge_attacks(
    config: Config,
    attacks: Sequence[Attack],
    num_rounds: int,
    jobs: int = 1,
    on_round: Callable[[int, Sequence[Surprise]], None] | None = None,
) -> AttackFigures:
    """Judge every attack once a round; `on_round` is called with the seed and its surprises after each."""
    from ...verification.verifier import open_verifier

    began = time.perf_counter()
    seeds = tuple(secrets.randbits(53) for _ in range(num_rounds))
    pairs = [(render_task(attack.task_id).task, attack.source) for attack in attacks]
    surprises: list[Surprise] = []
    backend = ""
    for seed in seeds:
        with open_verifier(evolve(config, verifier=evolve(config.verifier, seed=seed))) as verifier:
            backend = verifier.backend
            verdicts = verifier.verify_many(pairs, AUDIT, jobs)
        found = [surprise for pair in zip(attacks, verdicts, strict=True) for surprise in _find_surprise(*pair, seed)]
        surprises += found
        if on_round is not None:
            on_round(seed, found)
    return AttackFigures(
        backend=backend,
        num_attacks=len(attacks),
        seeds=seeds,
        surprises=tuple(surprises),
        wall_s=time.perf_counter() - began,
    )


def _find_surprise(attack: Attack, verdict: Verdict, seed: int) -> list[Surprise]:
    if (verdict.outcome, verdict.reached) in attack.answers:
        return []
    answer = f"{verdict.where}: {verdict.objection}".rstrip(": ")
    return [Surprise(attack=attack.name, seed=seed, is_accepted=verdict.correct, answer=answer)]


def render(figures: AttackFigures) -> list[str]:
    """Format the figures for a person."""
    total = figures.num_attacks * len(figures.seeds)
    others = len(figures.surprises) - figures.num_accepted
    lines = [
        f"{figures.num_accepted} of {total} accepted ({figures.num_attacks} attacks, {len(figures.seeds)} seeds, "
        f"backend {figures.backend}), {others} refused for another reason than their own, {figures.wall_s:.0f} s"
    ]
    return lines + [f"  {each.attack}: {each.answer} (seed {each.seed})" for each in figures.surprises]
