"""A round of reinforcement learning: draw tasks, sample, verify, reward, and learn (`learning`)."""

from __future__ import annotations

from attrs import evolve, frozen

from ...core.config import Config
from ...core.recipe.curriculum import CurriculumState, advance, count_successes, draw_levels
from ...core.recipe.extensions import AUDIT_UNTIMED, CellSpec, VerifierSpec
from ...core.recipe.learner import Sampling
from ...core.recipe.reward import goal_of, noise_factor, reward_of, with_noise
from ...core.seeds import derive
from ...core.serialisation import fingerprint
from ...core.task import Task
from ...core.text.extraction import extract
from ...core.verdict import Reward, Verdict
from ..display import CellState
from .contamination import open_admission
from .learning import Sample, choose, draw, learn, learning_columns
from .pipeline import CellContext, Model, verify, verifying_ahead
from .rows import Attempt, Journal, Seconds, candidate_row, round_figures, round_row, stage_rows, timing_rows
from .task_draws import family_of, rehearsed_slots, root_seed, round_families, round_tasks


@frozen(kw_only=True, eq=False)
class Drawn:
    """A round's samples, a group a task, with what the training verifier made of each.

    `spec` is how they were verified; `factors` are what injected noise multiplied speedups by.
    """

    groups: tuple[tuple[Sample, ...], ...]
    slots: tuple[int, ...]
    verdicts: tuple[Verdict, ...]
    rewards: tuple[Reward, ...]
    factors: tuple[float | None, ...]
    spec: VerifierSpec


def draw_round(
    context: CellContext, journal: Journal, cell: CellSpec, model: Model, state: CurriculumState, round_index: int
) -> Drawn:
    """Draw a round's tasks and the model's answers to them, verify these and reward them."""
    config = context.config.rl
    root = root_seed(context.config, journal.seed)
    levels = draw_levels(state.level2_share, config.tasks_per_round, derive(root, "levels", round_index))
    admission = open_admission(context.config, context.work, context.progress)
    admits = None if admission is None else admission.admits
    families = round_families(context.config, state, root, round_index, levels)
    rehearsed = rehearsed_slots(context.config, root, round_index)
    tasks = round_tasks(root, round_index, levels, context.config.suite, admits, families, rehearsed)
    goal = goal_of(context.config.reward, round_index)
    prefix = round_name(context.config, round_index)
    sampling = Sampling.of(context.config, config)
    size = config.samples_per_task
    seeds = [derive(root, "sample", round_index, slot, number) for slot in range(len(tasks)) for number in range(size)]
    spread = [task for task in tasks for _ in range(size)]
    spec = cell.verifier if config.timed and goal != "correctness" else evolve(cell.verifier, timed=False)
    with verifying_ahead(context, spread, spec) as on_drawn:
        completions = draw(context, journal, model, spread, seeds, sampling, prefix, on_drawn)
    sources = [extract(completion.text) or "" for completion in completions]
    pairs = list(zip(spread, sources, strict=True))
    failed: dict[str, Exception] = {}
    verdicts = verify(context, journal, pairs, spec, f"{prefix}: verifying", failed)
    if failed:
        if len(failed) == len({task.task_id for task in tasks}):
            raise next(iter(failed.values()))
        # hours of rounds are not lost for one task
        told = "; ".join(str(error) for error in failed.values())
        context.progress.cell(journal.cell, journal.seed, CellState.RUNNING, f"{prefix}: tasks passed over: {told}")
    kept = [place for place, task in enumerate(spread) if task.task_id not in failed]
    factors = [_noise(cell, root, *pairs[place]) for place in kept]
    verdicts = [
        verdict if factor is None else with_noise(verdict, factor)
        for verdict, factor in zip(verdicts, factors, strict=True)
    ]
    rewards = [reward_of(verdict, cell, context.config.reward, goal) for verdict in verdicts]
    samples = [
        Sample(
            task=spread[place],
            completion=completions[place],
            source=sources[place],
            is_correct=verdict.correct,
            reward=reward.total,
        )
        for place, verdict, reward in zip(kept, verdicts, rewards, strict=True)
    ]
    return Drawn(
        groups=tuple(tuple(samples[first : first + size]) for first in range(0, len(samples), size)),
        slots=tuple(place // size for place in kept),
        verdicts=tuple(verdicts),
        rewards=tuple(rewards),
        factors=tuple(factors),
        spec=spec,
    )


def round_name(config: Config, round_index: int) -> str:
    return f"round {round_index + 1}/{config.rl.rounds}"


def run_round(
    context: CellContext,
    journal: Journal,
    cell: CellSpec,
    model: Model,
    state: CurriculumState,
    round_index: int,
    begun: Model,
) -> tuple[Model, CurriculumState]:
    """Run a round from `model` on; returns the model that it leaves, and where the curriculum stands.

    `begun` is the model with which reinforcement learning began.
    """
    config = context.config.rl
    before = Seconds(journal.seconds.sample, journal.seconds.verify, journal.seconds.train)
    drawn = draw_round(context, journal, cell, model, state, round_index)
    audits = _audit(context, drawn, round_index)
    chosen = choose(drawn.groups, config)
    attempts = _record(context, journal, drawn, audits, set(chosen), round_index)
    trained, update = learn(context, journal, model, drawn.groups, chosen, round_index, begun)
    spent = Seconds(
        journal.seconds.sample - before.sample,
        journal.seconds.verify - before.verify,
        journal.seconds.train - before.train,
    )
    share, learned = state.level2_share, learning_columns(drawn.groups, update)
    row = round_row(
        journal.cell, journal.seed, round_index, share, attempts, drawn.verdicts, audits, drawn.rewards, chosen
    )
    figures = round_figures(drawn.verdicts, drawn.rewards, learned, share, spent)
    context.progress.metrics("round", round_index + 1, figures)
    seconds = {"sample_s": spent.sample, "verify_s": spent.verify, "train_s": spent.train}
    journal.add("rounds", {**row, **learned, **seconds})
    state = advance(state, row["level1_accuracy"], context.config.curriculum, cell.extensions.curriculum)
    answers = [(family_of(sample.task), sample.is_correct) for group in drawn.groups for sample in group]
    state = count_successes(state, answers)
    return trained, state


def _audit(context: CellContext, drawn: Drawn, round_index: int) -> dict[int, Verdict]:
    """The audit's verdicts of the samples that it is asked about, by their positions."""
    config = context.config.rl
    num_audited = config.audited_samples or config.samples_per_task
    samples = [sample for group in drawn.groups for sample in group]
    audited = [index for index in range(len(samples)) if config.audit and index % config.samples_per_task < num_audited]
    pairs = [(samples[index].task, samples[index].source) for index in audited]
    # the audit is not part of what the cell would cost, so its seconds are not counted as the cell's
    found = verify(context, None, pairs, AUDIT_UNTIMED, f"{round_name(context.config, round_index)}: auditing")
    return dict(zip(audited, found, strict=True))


def _record(
    context: CellContext,
    journal: Journal,
    drawn: Drawn,
    audits: dict[int, Verdict],
    kept: set[int],
    round_index: int,
) -> list[Attempt]:
    """Add the rows of a round's samples to the journal."""
    samples = [sample for group in drawn.groups for sample in group]
    attempts = [
        Attempt(
            cell=journal.cell,
            seed=journal.seed,
            phase="rl",
            round=round_index,
            slot=slot,
            task=sample.task,
            sample=index % context.config.rl.samples_per_task,
            source=sample.source,
        )
        for index, (slot, sample) in enumerate(zip(drawn.slots, samples, strict=True))
    ]
    for index, (attempt, verdict) in enumerate(zip(attempts, drawn.verdicts, strict=True)):
        audit = audits.get(index)
        row = candidate_row(attempt, verdict, audit, drawn.rewards[index], index in kept)
        journal.add("candidates", {**row, "noise_factor": drawn.factors[index]})
        journal.add("stages", *stage_rows(attempt, "training", verdict))
        if audit is not None:
            journal.add("stages", *stage_rows(attempt, "audit", audit))
        if verdict.correct and drawn.spec.timed and context.config.verifier.timing != "none":
            # read back from the evidence store: the verdict has the ratio, the evidence its trials
            evidence = context.judge.gather(attempt.task, attempt.source, drawn.spec).evidence
            journal.add("timings", *timing_rows(attempt, "training", evidence.timing))
        journal.add("sources", {"candidate": verdict.candidate, "source": attempt.source})
    return attempts


def _noise(cell: CellSpec, root: int, task: Task, source: str) -> float | None:
    """What the cell's injected noise makes of a speedup; the same for a candidate wherever it is met in a seed."""
    if cell.noise_cv is None:
        return None
    return noise_factor(cell.noise_cv, derive(root, "injected noise", task.task_id, fingerprint(source)))
