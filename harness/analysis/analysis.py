"""What a results folder shows, computed once from its Parquet and used by every form of the report.

Where some seeds have every cell of the grid and others do not, only the first are analysed: a start of another seed may
be ten points better, which would pass for what a cell does.
Samples of one task are alike, so the intervals of rates and means resample tasks; they are about the training runs
that were made. Effects allow for seeds as well, where there are several (`core.statistics.factorial`). What cannot be
concluded is said (`conclusions`), and a number that was not measured is null.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, product

import polars as pl
from attrs import evolve

from ...core.config import merge
from ...core.outcome import Stage
from ...core.recipe.extensions import LETTERS, Extensions
from ...core.statistics import factorial
from ...core.statistics.intervals import detectable_multiple, fast_p, pass_at_k
from ...core.statistics.variance_components import Components
from ..errors import UsageError
from ..study.provenance import add_up, read_invocations
from ..study.rows import SFT
from ..study.store import Results
from .budget import (
    at_equal_seconds,
    cost_effects,
    false_accept_effects,
    held_out_points,
    learning_points,
    speed_effects,
    staging_saving,
)
from .comparisons import compare_controls, sweep_noise
from .conclusions import answers, remarks
from .findings import METRICS, AcceptedWrongly, Analysis, CellFacts, Curve, Estimate, FunnelStage, LearnedFrom, PairMean
from .rates import (
    after_a_failure,
    by_task,
    compared_seeds,
    complete_runs,
    final,
    geometric_mean,
    grid_cells,
    place_in_tables,
    rate,
    rate_over_tasks,
    timing_noise,
)

_FLAGS = ("multi_input", "staged", "curriculum", "timing")


def analyse(results: Results, cells_of: Collection[str] | None = None) -> Analysis:
    """Everything that a report of this folder shows; of `cells_of` and the starts alone, where they are named."""

    def of_cells(frame: pl.DataFrame) -> pl.DataFrame:
        return frame if cells_of is None else frame.filter(pl.col("cell").is_in([SFT, *cells_of]))

    recorded = results.recorded() or {}
    timing = str(recorded.get("timing_mode", "no timing"))
    config = merge(recorded["config"]) if "config" in recorded else None
    all_candidates = results.read("candidates")
    every_cell, every_candidate = of_cells(results.read("cells")), of_cells(all_candidates)
    is_compared = pl.col("seed").is_in(compared_seeds(every_cell))

    def read(table: str) -> pl.DataFrame:
        return of_cells(results.read(table)).filter(is_compared)

    cells, candidates = every_cell.filter(is_compared), every_candidate.filter(is_compared)
    rounds, stages = read("rounds"), read("stages")
    every_evaluation = read("evaluation")
    evaluation = final(every_evaluation)
    names = sorted(set(cells["cell"]), key=place_in_tables)
    facts = {name: _cell_facts(name, cells, evaluation, candidates, timing) for name in names}
    in_grid = set(grid_cells(cells)["cell"])
    grid = tuple(fact for name, fact in facts.items() if name in in_grid)
    own = complete_runs(cells).filter(pl.col("cell") != SFT)
    # a start alone is no training run
    num_seeds, invocations = int((cells if own.is_empty() else own)["seed"].n_unique()), read_invocations(results)
    analysis = Analysis(
        timing=timing,
        backend=str(recorded.get("backend", "unknown")),
        policy=config.policy.name if config else "unknown",
        config=config,
        versions=recorded.get("all_versions", {}),
        invocations=invocations,
        totals=add_up(invocations),
        num_seeds=num_seeds,
        num_complete=complete_runs(every_cell).filter(pl.col("cell") != SFT).height,
        num_complete_in_grid=complete_runs(grid_cells(every_cell)).height,
        num_failed=every_cell.filter(pl.col("status") == "failed").height,
        samples_per_task=_samples_per_task(evaluation),
        start=facts.get(SFT),
        cells=grid,
        effects={metric: factorial.analyse(_responses(metric, cells, evaluation)) for metric in METRICS},
        budget=at_equal_seconds(cells, rounds, every_evaluation),
        cost_effects=cost_effects(cells, rounds),
        speed_effects=speed_effects(cells, evaluation, timing),
        false_accept_effects=false_accept_effects(cells, evaluation),
        staging_saving=staging_saving(cells, stages),
        pairs=_pair_means(cells, evaluation),
        held_out=held_out_points(cells, rounds, every_evaluation),
        learning=learning_points(rounds, candidates),
        controls=tuple(fact for name, fact in facts.items() if name not in in_grid | {SFT}),
        comparisons=compare_controls(cells, evaluation),
        noise_sweep=sweep_noise(cells, evaluation, timing),
        # timing is the same whatever cell and seed it served
        timing_noise=timing_noise(results.read("timings"), all_candidates),
        accepted_wrongly=_accepted_wrongly(cells, candidates, evaluation),
        learned_from=_learned_from(cells, candidates),
        funnel=_funnel(cells, stages),
        curriculum=_curves(rounds, "level2_share"),
        rewards=_curves(rounds, "mean_reward"),
        losses=_losses(read("training")),
        outcomes=_outcomes(candidates),
    )
    return evolve(analysis, answers=answers(analysis), remarks=remarks(analysis, every_cell, evaluation))


def _cell_facts(
    name: str, cells: pl.DataFrame, evaluation: pl.DataFrame, candidates: pl.DataFrame, timing: str
) -> CellFacts:
    own, judged = cells.filter(pl.col("cell") == name), evaluation.filter(pl.col("cell") == name)
    sampled = candidates.filter(pl.col("cell") == name)
    correct = judged.filter("correct")
    both = sampled.drop_nulls("audit_correct")
    accepted, audited = both.filter("correct"), both.filter("audit_correct")
    return CellFacts(
        cell=name,
        num_seeds=own.height,
        num_failed=own.filter(pl.col("status") == "failed").height,
        valid=rate(judged, pl.col("valid")),
        compiled=rate(judged, pl.col("compiled")),
        correct=rate(judged, pl.col("correct")),
        correct_by_seed=tuple(judged.group_by("seed").agg(pl.col("correct").mean()).sort("seed")["correct"]),
        correct_level1=rate(judged.filter(pl.col("level") == 1), pl.col("correct")),
        correct_level2=rate(judged.filter(pl.col("level") == 2), pl.col("correct")),
        pass_at_1=_pass_at(judged, 1),
        pass_at_k=_pass_at(judged, _samples_per_task(evaluation)),
        speedup=geometric_mean(correct, "speedup"),
        estimated_speedup=geometric_mean(correct, "estimated_speedup"),
        fast_1=_fast_1(judged, "speedup", timing == "measured"),
        estimated_fast_1=_fast_1(judged, "estimated_speedup", timing == "simulated timing"),
        false_positives=rate(accepted, ~pl.col("audit_correct")),
        false_negatives=rate(audited, ~pl.col("correct")),
        wall_seconds=float(own["wall_s"].sum()),
        train_seconds=float(own["train_s"].sum()),
        sample_seconds=float(own["sample_s"].sum()),
        verify_seconds=float(own["verify_s"].sum()),
    )


def _accepted_wrongly(
    cells: pl.DataFrame, candidates: pl.DataFrame, evaluation: pl.DataFrame
) -> tuple[AcceptedWrongly, ...]:
    """What the training verifiers of the grid accepted and the audit rejects, without M and with it.

    Of training candidates; where none was audited, of held-out samples.
    """
    judged = candidates.filter("correct").drop_nulls("audit_correct")
    if judged.is_empty():
        judged = evaluation.filter("accepted").with_columns(audit_correct=pl.col("correct"))
    return tuple(
        AcceptedWrongly(
            multi_input=is_on,
            num_distinct=own.select("candidate", "task").n_unique(),
            share=rate(own, ~pl.col("audit_correct")),
        )
        for is_on, own in _by_flag(judged, cells, "multi_input")
    )


def _by_flag(frame: pl.DataFrame, cells: pl.DataFrame, flag: str) -> Iterator[tuple[bool, pl.DataFrame]]:
    """The rows of the grid's cells without an extension, then of those with it, where there are any."""
    flagged = frame.join(grid_cells(cells).select("cell", "seed", flag), on=["cell", "seed"])
    for is_on in (False, True):
        own = flagged.filter(pl.col(flag) == is_on)
        if own.height:
            yield is_on, own


def _learned_from(cells: pl.DataFrame, candidates: pl.DataFrame) -> tuple[LearnedFrom, ...]:
    """What training selected in the grid's cells, without S and with it."""
    is_wrong = ~pl.col("correct")
    return tuple(
        LearnedFrom(
            staged=staged, wrong=rate(own, is_wrong), wrong_level2=rate(own.filter(pl.col("level") == 2), is_wrong)
        )
        for staged, own in _by_flag(candidates.filter("selected"), cells, "staged")
    )


def _samples_per_task(evaluation: pl.DataFrame) -> int:
    """Samples of a task in one cell with one seed; the fewest, should they differ, so that pass@k exists for all."""
    fewest = evaluation.group_by("cell", "seed", "task").len()["len"].min()
    return fewest if isinstance(fewest, int) else 1


def _pass_at(judged: pl.DataFrame, k: int) -> Estimate:
    counts = judged.group_by("seed", "task").agg(pl.len(), pl.col("correct").sum()).sort("seed", "task")
    chances = [(task, pass_at_k(len_, right, k)) for _, task, len_, right in counts.iter_rows()]
    known = [(task, chance) for task, chance in chances if chance is not None]
    return rate_over_tasks([chance for _, chance in known], [task for task, _ in known])


def _fast_1(judged: pl.DataFrame, column: str, clocked: bool) -> Estimate:
    """fast_1 over samples: a correct sample whose time is not known does not count as fast."""
    if not clocked or fast_p(judged["correct"].to_list(), judged[column].to_list(), 1.0) is None:
        return Estimate(count=0)
    return rate(judged, pl.col("correct") & (pl.col(column) > 1.0).fill_null(False))


def _responses(metric: str, cells: pl.DataFrame, evaluation: pl.DataFrame) -> list[factorial.Response[Extensions]]:
    """A rate by task in the complete runs of the grid."""
    shares = by_task(metric, evaluation.join(complete_runs(grid_cells(cells)), on=["cell", "seed"]))
    return [
        factorial.Response(cell=Extensions.parse(cell), seed=seed, task=task, value=value)
        for cell, seed, _, task, value in shares.iter_rows()
    ]


def predict_detectable(results: Results, sizes: Sequence[tuple[int, int]]) -> dict[str, tuple[float | None, ...]]:
    """Predict the smallest main effect on the rate of right samples that runs of other sizes would show.

    By extension and size (seeds, tasks), with a chance of 80% that the 95% interval excludes 0, from the variances of
    this grid. Null where a size has fewer than two seeds or tasks; raises UsageError where this grid has.
    """
    cells = results.read("cells")
    evaluation = final(results.read("evaluation")).filter(pl.col("seed").is_in(compared_seeds(cells)))
    try:
        components = factorial.find_effect_components(_responses("correct", cells, evaluation))
    except ValueError as error:
        raise UsageError(f"{results.root}: no power can be predicted: {error}") from None
    return {
        name: tuple(_detectable(found, *size) for size in sizes) for name, found in components.items() if len(name) == 1
    }


def _detectable(components: Components, num_seeds: int, num_tasks: int) -> float | None:
    if num_seeds < 2 or num_tasks < 2:
        return None
    found = components.predict(num_seeds, num_tasks)
    if found.standard_error is None or found.degrees_of_freedom is None:
        return None
    return detectable_multiple(found.degrees_of_freedom) * found.standard_error


def _pair_means(cells: pl.DataFrame, evaluation: pl.DataFrame) -> tuple[PairMean, ...]:
    """Rates over the cells at each combination of two extensions, where there are such cells."""
    names = dict(zip(LETTERS, _FLAGS, strict=True))
    flagged = evaluation.join(grid_cells(cells).select("cell", "seed", *_FLAGS), on=["cell", "seed"])
    return tuple(
        PairMean(
            metric="correct",
            first=first,
            second=second,
            first_on=first_on,
            second_on=second_on,
            rate=rate(own, pl.col("correct")),
        )
        for first, second in combinations(LETTERS, 2)
        for first_on, second_on in product((False, True), repeat=2)
        if (own := flagged.filter((pl.col(names[first]) == first_on) & (pl.col(names[second]) == second_on))).height
    )


def _funnel(cells: pl.DataFrame, stages: pl.DataFrame) -> tuple[FunnelStage, ...]:
    found = []
    for staged, own in _by_flag(stages.filter(pl.col("verifier") == "training"), cells, "staged"):
        marked = own.sort("stage_index").with_columns(failed_before=after_a_failure())
        for stage in Stage:
            rows = marked.filter(pl.col("stage") == stage.value)
            found.append(
                FunnelStage(
                    staged=staged,
                    stage=stage,
                    num_attempted=rows.height,
                    num_failed=rows.filter(~pl.col("passed")).height,
                    seconds=float(rows["stage_s"].sum()),
                    saved_seconds=float(rows.filter("failed_before")["stage_s"].sum()),
                )
            )
    return tuple(found)


def _curves(rounds: pl.DataFrame, column: str) -> tuple[Curve, ...]:
    means = rounds.group_by("cell", "round").agg(pl.col(column).mean()).sort("cell", "round")
    return _by_cell(means, column)


def _losses(training: pl.DataFrame) -> tuple[Curve, ...]:
    ordered = training.with_columns(pl.col("round").fill_null(-1))
    means = ordered.group_by("cell", "round", "step").agg(pl.col("loss").mean()).sort("cell", "round", "step")
    return _by_cell(means, "loss")


def _by_cell(frame: pl.DataFrame, column: str) -> tuple[Curve, ...]:
    names = sorted(set(frame["cell"]), key=place_in_tables)
    return tuple(Curve(cell=name, values=tuple(frame.filter(pl.col("cell") == name)[column])) for name in names)


def _outcomes(candidates: pl.DataFrame) -> tuple[tuple[str, int], ...]:
    counts = candidates.group_by("outcome").len().sort(["len", "outcome"], descending=[True, False])
    return tuple((str(code), int(number)) for code, number in counts.iter_rows())
