"""A round of reinforcement learning: draw tasks, sample, verify, reward, and learn (`learning`)."""

from __future__ import annotations

from attrs import evolve

from ...core.recipe.curriculum import CurriculumState, advance, draw_levels
from ...core.recipe.extensions import AUDIT_UNTIMED, CellSpec
from ...core.recipe.learner import Sampling
from ...core.recipe.reward import noise_factor, reward_of, with_noise
from ...core.seeds import derive
from ...core.serialisation import fingerprint
from ...core.task import Task
from ...core.text.extraction import extract
from .contamination import open_admission
from .learning import Sample, choose, draw, learn, learning_columns
from .live_figures import round_figures
from .pipeline import CellContext, Model, verify
from .rows import Attempt, Journal, Seconds, candidate_row, round_row, stage_rows, timing_rows
from .task_draws import root_seed, round_tasks


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
    config, extensions = context.config.rl, cell.extensions
    root = root_seed(context.config, journal.seed)
    levels = draw_levels(state.level2_share, config.tasks_per_round, derive(root, "levels", round_index))
    admission = open_admission(context.config, context.work, context.progress)
    admits = None if admission is None else admission.admits
    tasks = round_tasks(root, round_index, levels, context.config.suite, admits)
    before = Seconds(journal.seconds.sample, journal.seconds.verify, journal.seconds.train)

    prefix = f"round {round_index + 1}/{config.rounds}"
    sampling = Sampling(
        temperature=config.temperature, top_p=config.top_p, max_new_tokens=context.config.policy.max_new_tokens
    )
    seeds = [
        derive(root, "sample", round_index, slot, number)
        for slot in range(len(tasks))
        for number in range(config.samples_per_task)
    ]
    spread = [(slot, task) for slot, task in enumerate(tasks) for _ in range(config.samples_per_task)]
    completions = draw(context, journal, model, [task for _, task in spread], seeds, sampling, prefix)
    sources = [extract(completion.text) or "" for completion in completions]
    pairs = list(zip([task for _, task in spread], sources, strict=True))
    spec = cell.verifier if config.timed else evolve(cell.verifier, timed=False)
    verdicts = verify(context, journal, pairs, spec, f"{prefix}: verifying")
    num_audited = config.audited_samples or config.samples_per_task
    audited = [index for index in range(len(pairs)) if config.audit and index % config.samples_per_task < num_audited]
    # the audit is not part of what the cell would cost, so its seconds are not counted as the cell's
    found = verify(context, None, [pairs[index] for index in audited], AUDIT_UNTIMED, f"{prefix}: auditing")
    audits = dict(zip(audited, found, strict=True))
    factors = [_noise(cell, root, *pair) for pair in pairs]
    verdicts = [
        verdict if factor is None else with_noise(verdict, factor)
        for verdict, factor in zip(verdicts, factors, strict=True)
    ]
    rewards = [reward_of(verdict, cell, context.config.reward) for verdict in verdicts]

    samples = [
        Sample(task=task, completion=completion, source=source, is_correct=verdict.correct, reward=reward.total)
        for (_, task), completion, source, verdict, reward in zip(
            spread, completions, sources, verdicts, rewards, strict=True
        )
    ]
    groups = [
        samples[first : first + config.samples_per_task] for first in range(0, len(samples), config.samples_per_task)
    ]
    chosen = choose(groups, config)
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
        if verdicts[index].correct and spec.timed and context.config.verifier.timing != "none":
            # read back from the evidence store: the verdict has the ratio, the evidence its trials
            evidence = context.judge.gather(attempt.task, attempt.source, spec).evidence
            journal.add("timings", *timing_rows(attempt, "training", evidence.timing))
        journal.add("sources", {"candidate": verdicts[index].candidate, "source": attempt.source})

    trained, update = learn(context, journal, model, groups, chosen, round_index, begun)
    spent = Seconds(
        journal.seconds.sample - before.sample,
        journal.seconds.verify - before.verify,
        journal.seconds.train - before.train,
    )
    row = round_row(
        journal.cell, journal.seed, round_index, state.level2_share, attempts, verdicts, audits, rewards, chosen
    )
    learned = learning_columns(groups, update)
    figures = round_figures(verdicts, rewards, learned, state.level2_share, spent)
    context.progress.metrics("round", round_index + 1, figures)
    journal.add(
        "rounds", {**row, **learned, "sample_s": spent.sample, "verify_s": spent.verify, "train_s": spent.train}
    )
    accuracy = row["level1_accuracy"]
    state = advance(state, accuracy, context.config.curriculum, extensions.curriculum)
    return trained, state


def _noise(cell: CellSpec, root: int, task: Task, source: str) -> float | None:
    """What the cell's injected noise makes of a speedup; the same for a candidate wherever it is met in a seed."""
    if cell.noise_cv is None:
        return None
    return noise_factor(cell.noise_cv, derive(root, "injected noise", task.task_id, fingerprint(source)))
