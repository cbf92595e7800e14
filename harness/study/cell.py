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
import random
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from attrs import Factory, define, frozen

from ...core.cells import CellSpec
from ...core.config import Config, RlConfig, SftConfig
from ...core.curriculum import CurriculumState, advance, draw_levels, start
from ...core.extensions import AUDIT, AUDIT_UNTIMED, VerifierSpec
from ...core.extraction import extract
from ...core.prompts import user_message
from ...core.reward import reward_of
from ...core.seeds import derive
from ...core.selection import select
from ...core.serialisation import fingerprint, to_plain
from ...core.task import Task
from ...core.timing_noise import noise_factor, with_noise
from ...core.verdict import Reward, Verdict
from ..display import Progress
from ..tables import Row
from ..work import Work, WorkStore, work_key, write_atomically
from .admission import Admission, open_admission
from .cell_tasks import evaluated_rounds, evaluation_tasks, root_seed, round_tasks
from .learner import COMPLETIONS, Judge, Learner, Sampling, Training
from .rows import Attempt, candidate_row, evaluation_row, round_row, stage_rows, timing_rows, training_rows
from .training_data import describe, draw_training_data, identify_training

SFT = "sft"
"""The name under which the supervised start, which all cells of a seed share, appears in the tables."""


@frozen(kw_only=True)
class Line:
    """Everything that a cell needs beside its identity."""

    config: Config
    learner: Learner
    judge: Judge
    work: WorkStore
    progress: Progress
    jobs: int = 1


@frozen(kw_only=True)
class Model:
    """A state of the model: the key of the work that made it and its files; both null for the base model."""

    key: str | None = None
    folder: Path | None = None


@define
class Seconds:
    """Seconds spent on the three kinds of work, as recorded when each unit was first done."""

    sample: float = 0.0
    verify: float = 0.0
    train: float = 0.0


@frozen(kw_only=True)
class CellResult:
    """A finished cell: rows by table, the final adapter's folder (null: the base model), and what it took."""

    rows: dict[str, list[Row]]
    seconds: Seconds
    wall_s: float
    adapter: Path | None = None


@define
class _Journal:
    """Collects the rows of one cell as it runs."""

    cell: str
    seed: int
    rows: dict[str, list[Row]] = Factory(dict)
    seconds: Seconds = Factory(Seconds)

    def add(self, table: str, *rows: Row) -> None:
        self.rows.setdefault(table, []).extend(rows)


def run_start(line: Line, seed: int) -> CellResult:
    """Train the supervised start of a seed and evaluate it."""
    started = time.monotonic()
    journal = _Journal(cell=SFT, seed=seed)
    model = _supervise(line, journal)
    _evaluate(line, journal, model, SFT)
    return _finish(journal, model, started)


def run_cell(line: Line, spec: CellSpec, seed: int) -> CellResult:
    """Run one cell from the shared start to its evaluation."""
    started = time.monotonic()
    journal = _Journal(cell=str(spec), seed=seed)
    model = _supervise(line, _Journal(cell=SFT, seed=seed))
    state = start(line.config.curriculum, spec.extensions.curriculum)
    for round_index in range(line.config.rl.rounds):
        model, state = _run_round(line, journal, spec, model, state, round_index)
        if round_index in evaluated_rounds(line.config):
            _evaluate(line, journal, model, "rl", round_index)
    _evaluate(line, journal, model, "rl")
    return _finish(journal, model, started)


def _finish(journal: _Journal, model: Model, started: float) -> CellResult:
    wall_s = time.monotonic() - started
    return CellResult(rows=journal.rows, seconds=journal.seconds, wall_s=wall_s, adapter=model.folder)


def _supervise(line: Line, journal: _Journal) -> Model:
    config: SftConfig = line.config.sft
    if config.num_pairs == 0:
        return Model()
    root = derive(root_seed(line.config, journal.seed), SFT)
    training = _training(line.config, config, derive(root, "training"))
    key = work_key(
        SFT,
        suite=line.config.suite,
        policy=line.learner.fingerprint,
        sft={name: value for name, value in to_plain(config).items() if name != "data"},
        training=to_plain(training),
        data=root,
        **identify_training(line.config),
    )

    def make(folder: Path) -> list[float]:
        line.progress.phase("preparing pairs", 0)
        data = draw_training_data(
            line.config, root, line.learner.fits, _admission(line), line.jobs, line.progress.advance
        )
        write_atomically(folder / "data.json", json.dumps(data.plain(), indent=2).encode())
        line.progress.phase(f"supervised fine-tuning on {describe(data.plain())}", 0)
        return line.learner.finetune(None, data.pairs, training, folder / "adapter", line.progress.advance)

    work = line.work.once("adapters", key, make)
    journal.seconds.train += work.seconds
    journal.add("training", *training_rows(journal.cell, journal.seed, SFT, None, work.value))
    return Model(key=key, folder=_adapter(work.folder))


def _admission(line: Line) -> Admission | None:
    return open_admission(line.config, line.work, line.progress.advance)


def _adapter(folder: Path | None) -> Path | None:
    return None if folder is None else folder / "adapter"


def _training(config: Config, phase: SftConfig | RlConfig, seed: int) -> Training:
    return Training(
        epochs=phase.epochs,
        learning_rate=phase.learning_rate,
        batch_size=phase.batch_size,
        warmup_share=config.sft.warmup_share if isinstance(phase, SftConfig) else 0.0,
        lora_rank=config.sft.lora_rank,
        lora_alpha=config.sft.lora_alpha,
        lora_dropout=config.sft.lora_dropout,
        seed=seed,
    )


def _run_round(
    line: Line, journal: _Journal, cell: CellSpec, model: Model, state: CurriculumState, round_index: int
) -> tuple[Model, CurriculumState]:
    config, extensions = line.config.rl, cell.extensions
    root = root_seed(line.config, journal.seed)
    levels = draw_levels(state.level2_share, config.tasks_per_round, derive(root, "levels", round_index))
    admission = _admission(line)
    admits = None if admission is None else admission.admits
    tasks = round_tasks(root, round_index, levels, line.config.suite, admits)
    before = Seconds(journal.seconds.sample, journal.seconds.verify, journal.seconds.train)

    prefix = f"round {round_index + 1}/{config.rounds}"
    sampling = Sampling(
        temperature=config.temperature, top_p=config.top_p, max_new_tokens=line.config.policy.max_new_tokens
    )
    seeds = [
        derive(root, "sample", round_index, slot, number)
        for slot in range(len(tasks))
        for number in range(config.samples_per_task)
    ]
    spread = [(slot, task) for slot, task in enumerate(tasks) for _ in range(config.samples_per_task)]
    completions = _sample(line, journal, model, [task for _, task in spread], seeds, sampling, prefix)
    sources = [extract(completion) or "" for completion in completions]
    pairs = list(zip([task for _, task in spread], sources, strict=True))
    verdicts = _verify(line, journal, pairs, cell.verifier, f"{prefix}: verifying")
    num_audited = config.audited_samples or config.samples_per_task
    audited = [index for index in range(len(pairs)) if index % config.samples_per_task < num_audited]
    # the audit is not part of what the cell would cost, so its seconds are not counted as the cell's
    found = _verify(line, None, [pairs[index] for index in audited], AUDIT_UNTIMED, f"{prefix}: auditing")
    audits = dict(zip(audited, found, strict=True))
    factors = [_noise(cell, root, *pair) for pair in pairs]
    verdicts = [
        verdict if factor is None else with_noise(verdict, factor)
        for verdict, factor in zip(verdicts, factors, strict=True)
    ]
    rewards = [reward_of(verdict, cell, line.config.reward) for verdict in verdicts]

    chosen = _select(rewards, sources, len(tasks), config)
    kept = set(chosen)
    attempts = [
        Attempt(
            cell=journal.cell,
            seed=journal.seed,
            phase="rl",
            round=round_index,
            slot=slot,
            task=task,
            sample=index % config.samples_per_task,
            source=source,
        )
        for index, ((slot, task), source) in enumerate(zip(spread, sources, strict=True))
    ]
    for index, attempt in enumerate(attempts):
        audit = audits.get(index)
        row = candidate_row(attempt, verdicts[index], audit, rewards[index], index in kept)
        journal.add("candidates", {**row, "noise_factor": factors[index]})
        journal.add("stages", *stage_rows(attempt, "training", verdicts[index]))
        if audit is not None:
            journal.add("stages", *stage_rows(attempt, "audit", audit))
        if verdicts[index].correct and line.config.verifier.clock != "none":
            # read back from the evidence store: the verdict has the ratio, the evidence its trials
            evidence = line.judge.gather(attempt.task, attempt.source, cell.verifier).evidence
            journal.add("timings", *timing_rows(attempt, "training", evidence.timing))
        journal.add("sources", {"candidate": verdicts[index].candidate, "source": attempt.source})

    answers = [(user_message(spread[index][1]), completions[index]) for index in chosen]
    trained = _reinforce(line, journal, model, answers, round_index)
    spent = Seconds(
        journal.seconds.sample - before.sample,
        journal.seconds.verify - before.verify,
        journal.seconds.train - before.train,
    )
    row = round_row(
        journal.cell, journal.seed, round_index, state.level2_share, attempts, verdicts, audits, rewards, chosen
    )
    journal.add("rounds", {**row, "sample_s": spent.sample, "verify_s": spent.verify, "train_s": spent.train})
    accuracy = row["level1_accuracy"]
    state = advance(state, accuracy, line.config.curriculum, extensions.curriculum)
    return trained, state


def _noise(cell: CellSpec, root: int, task: Task, source: str) -> float | None:
    """What the cell's injected noise makes of a speedup; the same for a candidate wherever it is met in a seed."""
    if cell.noise_cv is None:
        return None
    return noise_factor(cell.noise_cv, derive(root, "injected noise", task.task_id, fingerprint(source)))


def _select(rewards: Sequence[Reward], sources: Sequence[str], num_tasks: int, config: RlConfig) -> tuple[int, ...]:
    """Positions of the candidates to train on: the best of each task, never one that earned nothing."""
    chosen: list[int] = []
    for slot in range(num_tasks):
        first = slot * config.samples_per_task
        group = [reward.total for reward in rewards[first : first + config.samples_per_task]]
        texts = sources[first : first + config.samples_per_task]
        chosen.extend(first + position for position in select(group, config.keep, texts))
    return tuple(chosen)


def draw_completions(
    line: Line, model: Model, tasks: Sequence[Task], seeds: Sequence[int], sampling: Sampling, phase: str
) -> Work:
    """A completion for each task, drawn by the seed beside it, as a unit of work that is done once."""
    prompts = [user_message(task) for task in tasks]
    key = work_key(
        COMPLETIONS,
        policy=line.learner.fingerprint,
        adapter=model.key,
        tasks=[task.task_id for task in tasks],
        prompts=fingerprint(prompts),
        seeds=list(seeds),
        sampling=to_plain(sampling),
    )

    def make(_: Path) -> list[str]:
        line.progress.phase(f"{phase}: sampling", len(prompts))
        return line.learner.sample(model.folder, prompts, seeds, sampling, line.progress.advance)

    return line.work.once(COMPLETIONS, key, make)


def _sample(
    line: Line,
    journal: _Journal,
    model: Model,
    tasks: Sequence[Task],
    seeds: Sequence[int],
    sampling: Sampling,
    phase: str,
) -> list[str]:
    work = draw_completions(line, model, tasks, seeds, sampling, phase)
    journal.seconds.sample += work.seconds
    completions: list[str] = work.value
    return completions


def _verify(
    line: Line, journal: _Journal | None, pairs: Sequence[tuple[Task, str]], spec: VerifierSpec, phase: str
) -> list[Verdict]:
    line.progress.phase(phase, len(pairs))
    done = count(1)
    # workers that come to the same candidates at the same time begin at different ones, and find each other's evidence
    first = random.randrange(len(pairs)) if pairs else 0
    turned = [*pairs[first:], *pairs[:first]]
    found = line.judge.verify_many(turned, spec, line.jobs, lambda *_: line.progress.advance(next(done)))
    verdicts = found[len(pairs) - first :] + found[: len(pairs) - first]
    if journal is not None:
        journal.seconds.verify += sum(verdict.seconds for verdict in verdicts)
    return verdicts


def _keep_audit_trials(line: Line, journal: _Journal, attempt: Attempt, audit: Verdict) -> None:
    """The audit's trials, where a GPU took them; what a simulated clock would say anybody can compute again."""
    if audit.correct and line.config.verifier.clock == "measured":
        evidence = line.judge.gather(attempt.task, attempt.source, AUDIT).evidence
        journal.add("timings", *timing_rows(attempt, "audit", evidence.timing))


def _reinforce(
    line: Line, journal: _Journal, model: Model, answers: Sequence[tuple[str, str]], round_index: int
) -> Model:
    """Fine-tune on the selected answers; where nothing was selected the model stays as it is."""
    if not answers:
        return model
    config = line.config.rl
    training = _training(line.config, config, derive(root_seed(line.config, journal.seed), "reinforce", round_index))
    key = work_key(
        "update",
        policy=line.learner.fingerprint,
        adapter=model.key,
        answers=[list(answer) for answer in answers],
        training=to_plain(training),
    )

    def make(folder: Path) -> list[float]:
        line.progress.phase(f"round {round_index + 1}/{config.rounds}: fine-tuning", 0)
        return line.learner.finetune(model.folder, answers, training, folder / "adapter", line.progress.advance)

    work = line.work.once("adapters", key, make)
    journal.seconds.train += work.seconds
    journal.add("training", *training_rows(journal.cell, journal.seed, "rl", round_index, work.value))
    return Model(key=key, folder=_adapter(work.folder))


def _evaluate(line: Line, journal: _Journal, model: Model, phase: str, round_index: int | None = None) -> None:
    """Evaluate the model that ends a phase, or the one that a round has left."""
    config = line.config.evaluation
    num_samples = config.samples_per_task if round_index is None else config.round_samples
    tasks = evaluation_tasks(line.config)
    spread = [(slot, task, sample) for slot, task in enumerate(tasks) for sample in range(num_samples)]
    root = root_seed(line.config, journal.seed)
    seeds = [derive(root, "evaluation sample", slot, sample) for slot, _, sample in spread]
    sampling = Sampling(
        temperature=config.temperature, top_p=config.top_p, max_new_tokens=line.config.policy.max_new_tokens
    )
    completions = _sample(line, journal, model, [task for _, task, _ in spread], seeds, sampling, "evaluation")
    pairs = [(task, extract(text) or "") for (_, task, _), text in zip(spread, completions, strict=True)]
    # between rounds only rates are looked at, and timing would take as long as all else
    spec = AUDIT if round_index is None else AUDIT_UNTIMED
    verdicts = _verify(line, None, pairs, spec, "evaluation: auditing")
    for (slot, task, sample), (_, source), verdict in zip(spread, pairs, verdicts, strict=True):
        attempt = Attempt(
            cell=journal.cell,
            seed=journal.seed,
            phase=phase,
            round=round_index,
            slot=slot,
            task=task,
            sample=sample,
            source=source,
        )
        journal.add("evaluation", evaluation_row(attempt, verdict))
        if spec.timed:
            _keep_audit_trials(line, journal, attempt, verdict)
        journal.add("sources", {"candidate": verdict.candidate, "source": source})
