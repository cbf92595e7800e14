"""What a run's numbers say about the four research questions, in sentences, and what they do not say.

A sentence never claims more than was resampled: with one training run an effect is this run's, whatever its interval
over tasks. Fifty effects are looked at, so some intervals exclude 0 by chance, and that is said beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from ..core import factorial
from ..core.extensions import ALL_CELLS, Extensions
from ..core.statistics import wilson_interval
from .cell import SFT
from .findings import Answer, CellFacts, FunnelStage

Effects = Mapping[str, factorial.Analysis | None]
"""Effects by metric; null where no cell is complete."""

_MIN_SEEDS = 3
_CANNOT_TELL = "The cells that were run cannot tell: run --grid full, or half."


def answers(
    effects: Effects, funnel: Sequence[FunnelStage], cells: Sequence[CellFacts], clock: str
) -> tuple[Answer, ...]:
    """The research questions with what this run says to each."""
    return (
        Answer(
            question="Does multi-input testing (M) generalise better?",
            answer=f"{_sentence(effects, 'correct', 'm')} {_false_positives(cells)}",
        ),
        Answer(question="Does staged evaluation (S) save verification time?", answer=_staging(funnel)),
        Answer(
            question="Does the adaptive curriculum (C) help Level 2?",
            answer=_sentence(effects, "correct_level2", "c"),
        ),
        Answer(question="How much does timing noise (T) matter?", answer=_timing(effects, clock)),
    )


def _false_positives(cells: Sequence[CellFacts]) -> str:
    parts = []
    for on in (False, True):
        shares = [fact.false_positives for fact in cells if Extensions.parse(fact.cell).multi_input == on]
        count = sum(share.count for share in shares)
        if count:
            num_wrong = sum((share.value or 0.0) * share.count for share in shares)
            parts.append(f"{'with' if on else 'without'} it {num_wrong / count:.0%} of {count} accepted candidates")
    if not parts:
        return "No candidate was accepted in training."
    text = " and ".join(parts)
    return f"In training, {text} failed the audit."


def _staging(funnel: Sequence[FunnelStage]) -> str:
    exhaustive = [stage for stage in funnel if not stage.staged]
    spent, saved = sum(s.seconds for s in exhaustive), sum(s.saved_seconds for s in exhaustive)
    if spent <= 0:
        return "No cell without staging was run, so nothing can be compared."
    return (
        f"Staging would save {saved / spent:.0%} of the verification time of the cells without it "
        f"({saved:.1f} of {spent:.1f} s)."
    )


def _timing(effects: Effects, clock: str) -> str:
    if clock == "no clock":
        return "No clock ran: candidates were not timed, so this run cannot tell."
    noise = "" if clock == "measured" else f" The noise is injected ({clock}), not measured."
    return _sentence(effects, "correct", "t") + noise


def _sentence(effects: Effects, metric: str, term: str) -> str:
    found = effects[metric]
    effect = None if found is None else found.effect(term)
    if found is None or effect is None or effect.estimate is None:
        return _CANNOT_TELL
    size = f"{effect.estimate * 100:+.1f} points"
    if effect.low is None or effect.high is None:
        return f"Its main effect is {size}, with nothing to judge its noise by, so nothing can be concluded."
    if effect.low == effect.high == 0.0:
        return "No difference at all was seen between the cells with it and those without."
    bounds = f"{size} (95% interval {effect.low * 100:+.1f} to {effect.high * 100:+.1f}, {_resampling(found)})"
    if not effect.conclusive:
        return f"Too little data to tell an effect from noise: {bounds}."
    if "seeds" not in found.resampled:
        return f"In this one training run it {'helped' if effect.estimate > 0 else 'hurt'}: {bounds}."
    return f"It {'helps' if effect.estimate > 0 else 'hurts'}: {bounds}."


def _resampling(found: factorial.Analysis) -> str:
    if "seeds" not in found.resampled:
        return f"resampling {found.resampled} only, so it says nothing of another seed"
    few = f", of only {found.num_seeds} seeds" if found.num_seeds < _MIN_SEEDS else ""
    return f"resampling {found.resampled}{few}"


def remarks(
    cells: pl.DataFrame, evaluation: pl.DataFrame, effects: Effects, num_seeds: int, clock: str
) -> tuple[str, ...]:
    """What a reader must know before believing the numbers."""
    found = []
    if clock == "simulated clock":
        found.append("Speedups are estimates by the simulated clock: a roofline model with injected noise.")
    if num_seeds < _MIN_SEEDS:
        plural = "s" if num_seeds != 1 else ""
        found.append(
            f"{num_seeds} seed{plural}: differences between cells may be chance; run at least {_MIN_SEEDS} seeds."
        )
    found.append(
        "Intervals of rates resample held-out tasks, taking the samples of a task for one fact; "
        "they say nothing of another training run."
    )
    found += _task_remarks(evaluation)
    failed = cells.filter(pl.col("status") == "failed")
    found += [f"{cell} seed {seed} failed: {why}" for cell, seed, why in failed["cell", "seed", "message"].iter_rows()]
    missing = len(ALL_CELLS) - cells.filter(pl.col("cell") != SFT)["cell"].n_unique()
    if missing:
        found.append(f"{missing} of 16 cells were not run; interactions may be confounded with one another.")
    return (*found, *_effect_remarks(effects))


def _task_remarks(evaluation: pl.DataFrame) -> list[str]:
    own = evaluation.filter(pl.col("cell") != SFT).group_by("cell").agg(pl.col("task").n_unique(), pl.len())
    if own.is_empty():
        return []
    num_tasks, num_samples = min(own["task"]), min(own["len"])
    middle = wilson_interval(num_tasks // 2, num_tasks)
    if middle is None or num_tasks >= 100:
        return []
    return [
        f"{num_samples} held-out samples a cell, of {num_tasks} tasks: a rate's 95% interval reaches up to about "
        f"{middle.half_width * 100:.0f} points to either side."
    ]


def _effect_remarks(effects: Effects) -> list[str]:
    primary = effects["correct"]
    if primary is None:
        return ["No complete cell, so no effect can be estimated."]
    known = [effect for found in effects.values() if found is not None for effect in found.effects]
    judged = [effect for effect in known if effect.low is not None]
    found = []
    if judged:
        num_marked = sum(effect.conclusive for effect in judged)
        found.append(
            f"{len(judged)} effects were looked at, and the intervals of {num_marked} exclude 0; about one in twenty "
            f"({len(judged) / 20:.1f} of {len(judged)}) would by chance alone."
        )
    if "seeds" not in primary.resampled:
        found.append(f"Intervals of effects resample {primary.resampled} only: they say nothing of another seed.")
    return found
