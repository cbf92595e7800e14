"""What a run's numbers say about the four research questions, in sentences, and what they do not say.

A sentence never claims more than its interval is over: with one seed an effect is that of the runs that were made,
however sure it is over tasks. Many effects are looked at, so an effect is called one only where Holm's adjusted p
allows it, and how many numbers were looked at, and how many intervals exclude 0 by chance, is said beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from ...core.recipe.extensions import ALL_CELLS
from ...core.statistics import factorial
from ...core.statistics.factorial import GRID, MEANS
from ...core.statistics.intervals import wilson_interval
from ..study.rows import SFT
from .findings import (
    AcceptedWrongly,
    Analysis,
    Answer,
    Budget,
    Comparison,
    Estimate,
    LearnedFrom,
    NoiseSetting,
    TimingNoise,
)
from .number_format import Form, written
from .rates import compared_seeds, complete_runs, grid_cells

Effects = Mapping[str, factorial.Analysis | None]
"""Effects by metric; null where no cell is complete."""

_MIN_SEEDS = 3
_CANNOT_TELL = "The cells that were run cannot tell: run --grid full, or half."


def answers(analysis: Analysis) -> tuple[Answer, ...]:
    """The research questions with what this run says to each: a sentence with an interval first."""
    effects, costs = analysis.effects, analysis.cost_effects
    return (
        Answer(
            question="Does multi-input testing (M) generalise better?",
            answer=_paragraph(
                _sentence(effects, "correct", "m"),
                _at_budget(analysis.budget, "correct", "m"),
                _cost(costs, "m"),
                _accepted_wrongly(analysis.accepted_wrongly),
                _false_accepts(analysis.false_accept_effects),
            ),
        ),
        Answer(
            question="Does staged evaluation (S) save verification time?",
            answer=_paragraph(
                _staging(analysis.staging_saving),
                _cost(costs, "s"),
                "On the rate of correct kernels:",
                _sentence(effects, "correct", "s"),
                _learned_from(analysis.learned_from),
            ),
        ),
        Answer(
            question="Does the adaptive curriculum (C) help Level 2?",
            answer=_paragraph(
                _sentence(effects, "correct_level2", "c"), _at_budget(analysis.budget, "correct_level2", "c")
            ),
        ),
        Answer(question="How much does timing noise (T) matter?", answer=_timing(analysis)),
    )


def _points(share: float) -> str:
    return written(share, Form.POINTS)


def _paragraph(*sentences: str) -> str:
    return " ".join(sentence for sentence in sentences if sentence)


def _accepted_wrongly(wrong: Sequence[AcceptedWrongly]) -> str:
    parts = []
    for found in wrong:
        share = found.share
        if share.value is not None and share.low is not None and share.high is not None:
            parts.append(
                f"{'with' if found.multi_input else 'without'} it {share.value:.1%} (95% interval {share.low:.1%} to "
                f"{share.high:.1%} over tasks) of {share.count:,} that were audited ({found.num_distinct:,} distinct)"
            )
    if not parts:
        return "No candidate that training accepted was audited."
    return f"Of the candidates that training accepts, the audit rejects {', and '.join(parts)}."


def _learned_from(learned: Sequence[LearnedFrom]) -> str:
    parts = []
    for found in learned:
        share, level2 = found.wrong, found.wrong_level2
        if share.value is not None:
            of_level2 = "" if level2.value is None else f" ({level2.value:.0%} of those of Level 2)"
            which = "with it" if found.staged else "without it"
            parts.append(f"{which} {share.value:.0%}{of_level2} of {share.count:,}")
    if not parts:
        return ""
    return f"Of the samples that training learned from its own verifier had refused {', and '.join(parts)}."


def _staging(saving: Estimate) -> str:
    if saving.value is None or saving.low is None or saving.high is None:
        return "No cell without staging was run, so nothing can be compared."
    return (
        f"Staging would save {saving.value:.0%} of the verification time of the cells without it "
        f"(95% interval {saving.low:.0%} to {saving.high:.0%} over tasks, {saving.count} candidates)."
    )


def _timing(analysis: Analysis) -> str:
    timing = analysis.timing
    if timing == "no timing":
        return "Timing was off: candidates were not timed, so this run cannot tell."
    return _paragraph(
        _sentence(analysis.effects, "correct", "t"),
        _factor(analysis.speed_effects, "t", "the speed of right samples (a geometric mean)"),
        "" if timing == "measured" else f"The noise is injected ({timing}), not measured.",
        _scatter(analysis.timing_noise),
        _at_budget(analysis.budget, "correct", "t"),
        _cost(analysis.cost_effects, "t"),
        _injected(analysis.noise_sweep),
    )


def _scatter(noise: Sequence[TimingNoise]) -> str:
    """How far the protocols scatter, in the order of the table."""
    parts = [
        f"{'calibrated' if found.calibrated else 'one cold trial'} {found.between.value:.1%}"
        for found in noise
        if found.between.value is not None
    ]
    if not parts:
        return ""
    return f"Repeated measurements of one reference scatter by (coefficient of variation) {', '.join(parts)}."


def _injected(sweep: Sequence[NoiseSetting]) -> str:
    """The sweep's differences: of single training runs a seed, so each says little alone."""
    parts, over = [], ""
    for setting in sweep:
        found = setting.difference
        if setting.metric == "correct" and setting.cv and found.value is not None:
            over = setting.over
            bounds = f"{_points(found.low or 0.0)} to {_points(found.high or 0.0)}"
            parts.append(f"{_points(found.value)} points ({bounds}) with a CV of {setting.cv:.0%}")
    if not parts:
        return ""
    return (
        f"Training with noise injected into calibrated timing, minus training without: {', '.join(parts)}; each "
        f"compares one cell with one cell, is over {over}, and is not adjusted for the others."
    )


def _find(found: factorial.Analysis | None, term: str) -> factorial.Effect | None:
    """A main effect, or null where the cells cannot tell it."""
    effect = None if found is None else found.effect(term)
    return effect if effect is not None and effect.estimable else None


def _size(effect: factorial.Effect, before: str = "", after: str = "") -> str:
    """An effect in points, with its interval in parentheses between these words."""
    size = f"{_points(effect.estimate or 0.0)} points"
    if effect.low is None or effect.high is None:
        return size
    return f"{size} ({before}{_points(effect.low)} to {_points(effect.high)}{after})"


def _at_budget(budget: Budget, metric: str, term: str) -> str:
    effect = _find(budget.effects[metric], term)
    if budget.seconds is None or effect is None:
        return ""
    holm = "" if effect.p_adjusted is None else f", Holm's p {written(effect.p_adjusted, Form.P_VALUE)}"
    return f"At equal verification seconds ({budget.seconds:.0f} s a run): {_size(effect, after=holm)}."


def _cost(costs: factorial.Analysis | None, term: str) -> str:
    return _factor(costs, term, "the seconds of a candidate's verification")


def _factor(found: factorial.Analysis | None, term: str, subject: str) -> str:
    """A main effect on a logarithm, as what the extension multiplies the subject by."""
    effect = _find(found, term)
    if effect is None:
        return ""
    factor, bounds = written(effect.estimate, Form.FACTOR), "too few seeds for an interval"
    if effect.low is not None and effect.high is not None:
        bounds = f"{written(effect.low, Form.FACTOR)} to {written(effect.high, Form.FACTOR)}"
    return f"It multiplies {subject} by {factor} ({bounds})."


def _false_accepts(found: factorial.Analysis | None) -> str:
    """The main effect of M on the share of held-out samples that training would accept and the audit refuses."""
    effect = _find(found, "m")
    return "" if effect is None else f"Its main effect on the share that training accepts wrongly is {_size(effect)}."


def _sentence(effects: Effects, metric: str, term: str) -> str:
    found = effects[metric]
    effect = _find(found, term)
    if found is None or effect is None:
        return _CANNOT_TELL
    if effect.low is None or effect.high is None:
        return f"Its main effect is {_size(effect)}, with nothing to judge its noise by, so nothing can be concluded."
    if effect.low == effect.high == 0.0:
        return "No difference at all was seen between the cells with it and those without."
    bounds = _size(effect, "95% interval ", f" {_scope(found)}")
    if "seeds" not in found.over:
        return f"One seed cannot tell an effect from the chance of a training run; in these runs: {bounds}."
    if not effect.conclusive:
        return f"No effect is shown: {bounds}."
    if not effect.confirmed:
        holm = "" if effect.p_adjusted is None else f" (Holm's p {written(effect.p_adjusted, Form.P_VALUE)})"
        return f"Not settled: {bounds} excludes 0 alone, but not beside the other effects looked at{holm}."
    return f"It {'helps' if (effect.estimate or 0.0) > 0 else 'hurts'}: {bounds}."


def _scope(found: factorial.Analysis) -> str:
    if "seeds" not in found.over:
        return f"over {found.over} only"
    few = f", with only {found.num_seeds} seeds" if found.num_seeds < _MIN_SEEDS else ""
    return f"over {found.over}{few}"


def remarks(analysis: Analysis, cells: pl.DataFrame, evaluation: pl.DataFrame) -> tuple[str, ...]:
    """What a reader must know before believing the numbers; `cells` are those of all seeds."""
    budget, num_seeds = analysis.budget, analysis.num_seeds
    found = []
    if analysis.timing == "simulated timing":
        found.append("Speedups are estimates by simulated timing: a roofline model with injected noise.")
    if num_seeds < _MIN_SEEDS:
        plural = "s" if num_seeds != 1 else ""
        found.append(
            f"{num_seeds} seed{plural}: differences between cells may be chance; run at least {_MIN_SEEDS} seeds."
        )
    found.append(
        "Intervals of rates resample held-out tasks, taking the samples of a task for one fact; "
        "they say nothing of another training run, so look at the rates by seed beside them."
    )
    found += _training_remarks(analysis.comparisons)
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
            "which takes learning for linear in rounds (evaluation.round_samples adds points between)."
        )
    at_start = [cell.cell for cell in budget.cells if cell.num_rounds == 0]
    if at_start:
        found.append(
            f"At equal verification seconds {len(at_start)} cells had finished no round, so that what stands there is "
            f"their supervised start: {', '.join(at_start)}."
        )
    return (*found, *_effect_remarks(analysis))


def training_gain(comparisons: Sequence[Comparison]) -> Comparison | None:
    """The mean of the grid, or of its half, minus the start, in the rate of correct kernels; null where not known."""
    for one in comparisons:
        if one.cell in MEANS and (one.counterpart, one.metric) == (SFT, "correct") and one.difference.low is not None:
            return one
    return None


def describe_gain(gain: Comparison) -> str:
    """What training did on the whole, with its interval."""
    found = gain.difference
    bounds = f"95% interval {_points(found.low or 0.0)} to {_points(found.high or 0.0)} over {gain.over}"
    cells = "the 16 cells" if gain.cell == GRID else f"the {gain.cell}"
    return f"the mean of {cells} minus their supervised start is {_points(found.value or 0.0)} points ({bounds})"


def _training_remarks(comparisons: Sequence[Comparison]) -> list[str]:
    """Whether there was a gain that extensions could have changed."""
    gain = training_gain(comparisons)
    if gain is None or (gain.difference.low or 0.0) > 0.0 or "seeds" not in gain.over:
        return []
    return [
        f"Reinforcement learning itself is not seen to raise the rate: {describe_gain(gain)}. What extensions do for "
        "training that gains more is not answered by this run."
    ]


def _seed_remarks(cells: pl.DataFrame) -> list[str]:
    """Which seeds lack cells that another has, and what is made of them."""
    names, seeds, compared = set(cells["cell"]) - {SFT}, sorted(set(cells["seed"])), compared_seeds(cells)
    complete = complete_runs(cells)
    has = {seed: set(complete.filter(pl.col("seed") == seed)["cell"]) & names for seed in seeds}
    found = []
    for seed in seeds if len(seeds) > 1 else []:
        if has[seed] == names:
            continue
        rest = "what is said of one cell is over the seeds that it has"
        if seed not in compared:
            rest = "all that is said here, but of the timing, leaves it out"
        found.append(f"Seed {seed} is not whole: {len(has[seed])} of {len(names)} cells are complete; {rest}.")
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


def _effect_remarks(analysis: Analysis) -> list[str]:
    """How many numbers a reader may pick from, and which were asked for beforehand."""
    primary = analysis.effects["correct"]
    if primary is None:
        return ["No complete cell, so no effect can be estimated."]
    by_run = (analysis.cost_effects, analysis.speed_effects, analysis.false_accept_effects)
    views = (*analysis.effects.values(), *analysis.budget.effects.values(), *by_run)
    judged = [effect for found in views if found for effect in found.effects if effect.low is not None]
    differences = [one.difference for one in analysis.comparisons]
    differences += [setting.difference for setting in analysis.noise_sweep]
    known = [one for one in differences if one.low is not None and one.high is not None]
    number = len(judged) + len(known)
    found = []
    if number:
        num_marked = sum(effect.conclusive for effect in judged)
        num_marked += sum((one.low or 0.0) > 0.0 or (one.high or 0.0) < 0.0 for one in known)
        found.append(
            f"{number} effects and differences were looked at, and the intervals of {num_marked} exclude 0; about one "
            f"in twenty ({number / 20:.1f} of {number}) would by chance alone. Asked for beforehand were the four "
            "questions: the main effects of M and T on the rate of correct kernels and of C on that of Level 2, and "
            "what S saves. All others explore, and Holm's p allows for the fifteen effects of one metric in one view."
        )
    if "seeds" not in primary.over:
        found.append(
            f"Intervals of effects are over {primary.over} only: they leave out how far training runs differ, so "
            "nothing is tested, and no effect is called detectable."
        )
    return found
