"""One cell of the grid: supervised start, rounds of reinforcement learning, and the evaluation that ends it.

A cell is a chain of content-addressed units of work (`harness.work`): adapters and completions are stored by what
determines them, verdicts by the verifier's evidence store. A model's state is named by the key of the work that made
it. So the supervised start is trained once for a seed and shared by all cells; two cells whose selections coincide
share everything that follows; and a killed run resumes by running again.

Random streams carry labels that leave the cell out (common random numbers): slot 3 of round 2 at Level 1 is the same
task with the same sampling seeds in every cell of a seed, so what differs between cells is what the extensions did.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from attrs import evolve

from ...core.config import SftConfig, identity
from ...core.recipe.curriculum import start
from ...core.recipe.extensions import AUDIT, AUDIT_UNTIMED, CellSpec, VerifierSpec
from ...core.recipe.learner import Sampling
from ...core.seeds import derive
from ...core.task import Task
from ...core.text.extraction import extract
from ...core.verdict import Verdict
from ..work import work_key, write_atomically
from .contamination import open_admission
from .pipeline import CellContext, Model, adapter_folder, draw_answers, training_of, verify
from .round import run_round
from .rows import (
    SFT,
    Attempt,
    CellResult,
    Journal,
    evaluation_row,
    tell_steps,
    timing_rows,
    training_rows,
    verdict_figures,
)
from .task_draws import evaluated_rounds, evaluation_tasks, root_seed
from .training_data import describe, draw_training_data, identify_training


def run_start(context: CellContext, seed: int) -> CellResult:
    """Train the supervised start of a seed and evaluate it."""
    started = time.monotonic()
    journal = Journal(cell=SFT, seed=seed)
    model = supervise(context, journal)
    _evaluate(context, journal, model, None)
    return _finish(journal, model, started)


def run_cell(context: CellContext, spec: CellSpec, seed: int) -> CellResult:
    """Run one cell from the shared start to its evaluation."""
    started = time.monotonic()
    journal = Journal(cell=str(spec), seed=seed)
    model = supervise(context, Journal(cell=SFT, seed=seed))
    begun, state = model, start(context.config.curriculum, spec.extensions.curriculum)
    for round_index in range(context.config.rl.rounds):
        if round_index and time.monotonic() > context.until:
            break
        model, state = run_round(context, journal, spec, model, state, round_index, begun)
        if round_index in evaluated_rounds(context.config):
            _evaluate(context, journal, model, spec.verifier, round_index)
    _evaluate(context, journal, model, spec.verifier)
    return _finish(journal, model, started)


def _finish(journal: Journal, model: Model, started: float) -> CellResult:
    wall_s = time.monotonic() - started
    return CellResult(rows=journal.rows, seconds=journal.seconds, wall_s=wall_s, adapter=model.folder)


def supervise(context: CellContext, journal: Journal) -> Model:
    """Train the supervised start of a seed, or find it trained; without one, the given model or the base model."""
    if context.given is not None:
        return context.given
    config: SftConfig = context.config.sft
    if config.num_pairs == 0:
        return Model()
    root = derive(root_seed(context.config, journal.seed), SFT)
    training = training_of(context.config, config, derive(root, "training"))
    key = work_key(
        SFT,
        suite=context.config.suite,
        policy=context.learner.fingerprint,
        sft={name: value for name, value in identity(config).items() if name != "data"},
        training=training.identify(),
        data=root,
        **identify_training(context.config),
    )

    def make(folder: Path) -> list[float]:
        context.progress.phase("preparing pairs", 0)
        admission = open_admission(context.config, context.work, context.progress)
        fits, advance = context.learner.fits, context.progress.advance
        data = draw_training_data(context.config, root, fits, admission, context.jobs, advance)
        write_atomically(folder / "data.json", json.dumps(data.plain(), indent=2).encode())
        num_steps = training.num_steps(len(data.pairs))
        context.progress.phase(f"supervised fine-tuning on {describe(data.plain())}", num_steps)
        tell = tell_steps(context.progress, SFT)
        return context.learner.finetune(None, data.pairs, training, folder / "adapter", tell)

    work = context.work.once("adapters", key, make)
    journal.seconds.train += work.seconds
    journal.add("training", *training_rows(journal.cell, journal.seed, SFT, None, work.value))
    return Model(key=key, folder=adapter_folder(work.folder))


def _evaluate(
    context: CellContext,
    journal: Journal,
    model: Model,
    trained_by: VerifierSpec | None,
    round_index: int | None = None,
) -> None:
    """Evaluate the model that ends a phase, or the one that a round has left, where cells are to be.

    `trained_by` is the verifier of its training, None for a start: what it makes of the samples is told beside.
    """
    if not context.examines:
        return
    config = context.config.evaluation
    num_samples = config.samples_per_task if round_index is None else config.round_samples
    tasks = evaluation_tasks(context.config)
    spread = [(slot, task, number) for slot, task in enumerate(tasks) for number in range(num_samples)]
    root = root_seed(context.config, journal.seed)
    seeds = [derive(root, "evaluation sample", slot, number) for slot, _, number in spread]
    sampling = Sampling.of(context.config, config)
    drawn = draw_answers(context, model, [task for _, task, _ in spread], seeds, sampling, "evaluation")
    journal.seconds.sample += drawn.seconds
    answers: list[tuple[str, bool | None]] = drawn.value
    pairs = [(task, extract(text) or "") for (_, task, _), (text, _) in zip(spread, answers, strict=True)]
    # between rounds only rates are looked at, and timing would take as long as all else
    spec = AUDIT if round_index is None else AUDIT_UNTIMED
    verdicts = verify(context, None, pairs, spec, "evaluation: auditing")
    context.progress.metrics("evaluation", len(journal.rows.get("rounds", [])), verdict_figures(verdicts))
    accepted = _find_accepted(context, trained_by, pairs, verdicts)
    for (slot, task, number), (_, source), (_, finished), verdict, is_accepted in zip(
        spread, pairs, answers, verdicts, accepted, strict=True
    ):
        attempt = Attempt(
            cell=journal.cell,
            seed=journal.seed,
            phase=SFT if trained_by is None else "rl",
            round=round_index,
            slot=slot,
            task=task,
            sample=number,
            source=source,
            finished=finished,
        )
        journal.add("evaluation", evaluation_row(attempt, verdict, accepted=is_accepted))
        if spec.timed:
            _keep_audit_trials(context, journal, attempt, verdict)
        journal.add("sources", {"candidate": verdict.candidate, "source": source})


def _find_accepted(
    context: CellContext, trained_by: VerifierSpec | None, pairs: Sequence[tuple[Task, str]], audits: Sequence[Verdict]
) -> list[bool | None]:
    """Whether training would have accepted each sample, None without a verifier of training.

    The audit asks all that it asks, and more: what the audit accepts it accepts, and what failed before the full run it
    refuses. The others are verified by it.
    """
    if trained_by is None:
        return [None] * len(pairs)
    found: list[bool | None] = [audit.correct for audit in audits]
    doubtful = [index for index, audit in enumerate(audits) if not audit.correct and audit.runs]
    spec = evolve(trained_by, stop_early=True, timed=False)
    verdicts = verify(context, None, [pairs[index] for index in doubtful], spec, "evaluation: as training verifies")
    for index, verdict in zip(doubtful, verdicts, strict=True):
        found[index] = verdict.correct
    return found


def _keep_audit_trials(context: CellContext, journal: Journal, attempt: Attempt, audit: Verdict) -> None:
    """The audit's trials, where a GPU took them; what simulated timing would say anybody can compute again."""
    if audit.correct and context.config.verifier.timing == "measured":
        evidence = context.judge.gather(attempt.task, attempt.source, AUDIT).evidence
        journal.add("timings", *timing_rows(attempt, "audit", evidence.timing))
