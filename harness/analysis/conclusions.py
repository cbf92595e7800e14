"""What a run's numbers say about the four research questions, in sentences, and what they do not say.

A sentence never claims more than its interval is over: with one training run an effect is this run's, however sure it
is over tasks. Many effects are looked at, so an effect is called one only where Holm's adjusted p allows it, and how
many intervals exclude 0 by chance is said beside them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import polars as pl

from ...core import factorial
from ...core.extensions import ALL_CELLS, Extensions
from ...core.statistics import wilson_interval
from ..report.figures import Form, written
from ..study.cell import SFT
from .findings import Answer, Budget, CellFacts, Estimate, NoiseSetting
from .rates import complete_runs, grid_cells

Effects = Mapping[str, factorial.Analysis | None]
"""Effects by metric; null where no cell is complete."""

_MIN_SEEDS = 3
_CANNOT_TELL = "The cells that were run cannot tell: run --grid full, or half."


def answers(
    effects: Effects,
    budget: Budget,
    saving: Estimate,
    costs: factorial.Analysis | None,
    cells: Sequence[CellFacts],
    sweep: Sequence[NoiseSetting],
    clock: str,
) -> tuple[Answer, ...]:
    """The research questions with what this run says to each: a sentence with an interval first."""
    return (
        Answer(
            question="Does multi-input testing (M) generalise better?",
            answer=_paragraph(
                _sentence(effects, "correct", "m"),
                _at_budget(budget, "correct", "m"),
                _cost(costs, "m"),
                _false_positives(cells),
            ),
        ),
        Answer(
            question="Does staged evaluation (S) save verification time?",
            answer=_paragraph(_staging(saving), _cost(costs, "s")),
        ),
        Answer(
            question="Does the adaptive curriculum (C) help Level 2?",
            answer=_paragraph(_sentence(effects, "correct_level2", "c"), _at_budget(budget, "correct_level2", "c")),
        ),
        Answer(
            question="How much does timing noise (T) matter?",
            answer=_timing(effects, budget, costs, sweep, clock),
        ),
    )


def _points(share: float) -> str:
    return written(share, Form.POINTS)


def _paragraph(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


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


def _staging(saving: Estimate) -> str:
    if saving.value is None or saving.low is None or saving.high is None:
        return "No cell without staging was run, so nothing can be compared."
    return (
        f"Staging would save {saving.value:.0%} of the verification time of the cells without it "
        f"(95% interval {saving.low:.0%} to {saving.high:.0%} over tasks, {saving.count} candidates)."
    )


def _timing(
    effects: Effects, budget: Budget, costs: factorial.Analysis | None, sweep: Sequence[NoiseSetting], clock: str
) -> str:
    if clock == "no clock":
        return "No clock ran: candidates were not timed, so this run cannot tell."
    noise = "" if clock == "measured" else f"The noise is injected ({clock}), not measured."
    parts = [_sentence(effects, "correct", "t"), noise, _at_budget(budget, "correct", "t"), _cost(costs, "t")]
    for setting in sweep:
        found = setting.difference
        if setting.metric == "correct" and setting.cv and found.value is not None:
            bounds = f"{_points(found.low or 0.0)} to {_points(found.high or 0.0)}"
            parts.append(f"Injected noise of {setting.cv:.0%}: {_points(found.value)} points ({bounds}).")
    return _paragraph(*parts)


def _at_budget(budget: Budget, metric: str, term: str) -> str:
    found = budget.effects[metric]
    effect = None if found is None else found.effect(term)
    if budget.seconds is None or effect is None or effect.estimate is None:
        return ""
    size = f"{_points(effect.estimate)} points"
    if effect.low is not None and effect.high is not None:
        size += f" ({_points(effect.low)} to {_points(effect.high)})"
    return f"At equal verification seconds ({budget.seconds:.0f} s a run): {size}."


def _cost(costs: factorial.Analysis | None, term: str) -> str:
    effect = None if costs is None else costs.effect(term)
    if effect is None or effect.estimate is None:
        return ""
    ratio = f"{math.exp(effect.estimate):.2f} times"
    if effect.low is not None and effect.high is not None:
        ratio += f" ({math.exp(min(effect.low, 50.0)):.2f} to {math.exp(min(effect.high, 50.0)):.2f})"
    return f"A candidate's verification then takes {ratio} the seconds."


def _sentence(effects: Effects, metric: str, term: str) -> str:
    found = effects[metric]
    effect = None if found is None else found.effect(term)
    if found is None or effect is None or effect.estimate is None:
        return _CANNOT_TELL
    size = f"{_points(effect.estimate)} points"
    if effect.low is None or effect.high is None:
        return f"Its main effect is {size}, with nothing to judge its noise by, so nothing can be concluded."
    if effect.low == effect.high == 0.0:
        return "No difference at all was seen between the cells with it and those without."
    bounds = f"{size} (95% interval {_points(effect.low)} to {_points(effect.high)} {_scope(found)})"
    if not effect.conclusive:
        return f"Too little data to tell an effect from noise: {bounds}."
    if not effect.confirmed:
        holm = "" if effect.p_adjusted is None else f" (Holm's p {effect.p_adjusted:.2f})"
        return f"Not settled: {bounds} excludes 0 alone, but not beside the other effects looked at{holm}."
    if "seeds" not in found.over:
        return f"In this one training run it {'helped' if effect.estimate > 0 else 'hurt'}: {bounds}."
    return f"It {'helps' if effect.estimate > 0 else 'hurts'}: {bounds}."


def _scope(found: factorial.Analysis) -> str:
    if "seeds" not in found.over:
        return f"over {found.over} only, so it says nothing of another seed"
    few = f", with only {found.num_seeds} seeds" if found.num_seeds < _MIN_SEEDS else ""
    return f"over {found.over}{few}"


def remarks(
    cells: pl.DataFrame, evaluation: pl.DataFrame, effects: Effects, budget: Budget, num_seeds: int, clock: str
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
    found += _seed_remarks(cells)
    failed = cells.filter(pl.col("status") == "failed")
    found += [
        f"{cell} seed {seed} failed: {_first_line(why)}"
        for cell, seed, why in failed["cell", "seed", "message"].iter_rows()
    ]
    missing = len(ALL_CELLS) - grid_cells(cells)["cell"].n_unique()
    if missing:
        found.append(f"{missing} of 16 cells were not run; interactions may be confounded with one another.")
    if budget.cells and min(cell.num_evaluations for cell in budget.cells) <= 2:
        found.append(
            "At equal verification seconds rates are interpolated between the start and the end of training alone, "
            "which takes learning for linear in seconds (evaluation.round_samples adds points between)."
        )
    return (*found, *_effect_remarks(effects))


def _seed_remarks(cells: pl.DataFrame) -> list[str]:
    """Which seeds lack cells that another has, and what is made of them."""
    names, grid, seeds = set(cells["cell"]) - {SFT}, set(grid_cells(cells)["cell"]), sorted(set(cells["seed"]))
    complete = complete_runs(cells)
    has = {seed: set(complete.filter(pl.col("seed") == seed)["cell"]) & names for seed in seeds}
    is_any_whole = any(grid <= has[seed] for seed in seeds)
    found = []
    for seed in seeds if len(seeds) > 1 else []:
        if has[seed] == names:
            continue
        left_out = "; effects leave it out, and" if is_any_whole and not grid <= has[seed] else ";"
        found.append(
            f"Seed {seed} is not whole: {len(has[seed])} of {len(names)} cells are complete{left_out} what is said of "
            "one cell is over the seeds that it has."
        )
    return found


def _first_line(message: str | None) -> str:
    lines = (message or "").strip().splitlines()
    return lines[0][:200] if lines else "no reason recorded"


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
    if "seeds" not in primary.over:
        found.append(f"Intervals of effects are over {primary.over} only: they say nothing of another seed.")
    return found
