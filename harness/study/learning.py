"""What a round learns from its samples, and how: best-of-n, or a policy gradient (`core.recipe.advantages`).

Best-of-n fine-tunes on the text of what it selects. A policy gradient learns from the tokens that were drawn, of all
answers that came to their end: one that was cut at the limit is no answer of the policy's, good or bad, and neither it
nor its reward is looked at. A round that leaves nothing to learn from leaves the model as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from ...core.config import RlConfig
from ...core.recipe.advantages import compute_advantages, is_mixed, is_used, select
from ...core.recipe.learner import Answer, Completion, OnDrawn, PolicyUpdate, Sampling, UpdateFigures
from ...core.seeds import derive
from ...core.serialisation import from_plain, to_plain
from ...core.task import Task
from ...core.text.prompts import user_message
from ..work import work_key
from .pipeline import CellContext, Model, adapter_folder, draw_answers, draw_tokens, training_of
from .rows import Journal, tell_steps, training_rows
from .task_draws import root_seed


@frozen(kw_only=True)
class Sample:
    """One sample of a round: what was drawn for which task, its source, and what the training verifier made of it."""

    task: Task
    completion: Completion
    source: str
    is_correct: bool
    reward: float


def draw(
    context: CellContext,
    journal: Journal,
    model: Model,
    tasks: Sequence[Task],
    seeds: Sequence[int],
    sampling: Sampling,
    phase: str,
    on_drawn: OnDrawn,
) -> list[Completion]:
    """Draw a completion for each task; best-of-n has no use for its tokens, and knows none."""
    if context.config.rl.algorithm != "best-of-n":
        work = draw_tokens(context, model, tasks, seeds, sampling, phase, on_drawn)
        journal.seconds.sample += work.seconds
        return [from_plain(plain, Completion) for plain in work.value]
    work = draw_answers(context, model, tasks, seeds, sampling, phase, on_drawn=on_drawn)
    journal.seconds.sample += work.seconds
    # of answers that an earlier version drew nobody knows, and best-of-n does not ask
    return [Completion(text=text, tokens=(), finished=finished is not False) for text, finished in work.value]


def choose(groups: Sequence[Sequence[Sample]], config: RlConfig) -> tuple[int, ...]:
    """Return the positions, over all groups, of the samples that are learned from.

    In best-of-n the best of each task, never one that earned nothing. In a policy gradient all finished ones of a group
    whose rewards differ, or that is held.
    """
    chosen: list[int] = []
    first = 0
    for group in groups:
        if config.algorithm == "best-of-n":
            if not (config.skip_solved and all(sample.is_correct for sample in group)):
                rewards, sources = [sample.reward for sample in group], [sample.source for sample in group]
                chosen += [first + position for position in select(rewards, config.keep, sources)]
        else:
            ended = [position for position, sample in enumerate(group) if sample.completion.finished]
            correct = [group[position].is_correct for position in ended]
            rewards = [group[position].reward for position in ended]
            has_advantages = len(set(rewards)) > 1 or (config.solved_weight > 0.0 and all(correct))
            if has_advantages and is_used(correct, config.skip_solved):
                chosen += [first + position for position in ended]
        first += len(group)
    return tuple(chosen)


def weigh_answers(groups: Sequence[Sequence[Sample]], chosen: Sequence[int], config: RlConfig) -> tuple[Answer, ...]:
    """Return the chosen samples as answers with their advantages within their groups.

    They are scaled by the part that is used of the round's finished answers, so that a step's mean is over all of
    these: else a group would weigh the more the fewer others of its round have something to compare.
    """
    kept = set(chosen)
    num_finished = sum(sample.completion.finished for group in groups for sample in group)
    share = len(kept) / max(1, num_finished)
    answers: list[Answer] = []
    first = 0
    for group in groups:
        used = [sample for position, sample in enumerate(group, start=first) if position in kept]
        rewards = [sample.reward for sample in used]
        held = config.solved_weight if all(sample.is_correct for sample in used) else 0.0
        advantages = compute_advantages(config.algorithm, rewards, config.negative_weight, held)
        answers += [
            Answer(prompt=user_message(sample.task), tokens=sample.completion.tokens, advantage=share * advantage)
            for sample, advantage in zip(used, advantages, strict=True)
        ]
        first += len(group)
    return tuple(answers)


def learning_columns(groups: Sequence[Sequence[Sample]], update: UpdateFigures | None) -> dict[str, Any]:
    """Return what a round's row says of its groups and of its update; null for what there was none of."""
    samples = [sample for group in groups for sample in group]
    lengths = [sample.completion.num_tokens for sample in samples if sample.completion.tokens]

    def mean(values: Sequence[float]) -> float | None:
        return sum(values) / len(values) if values else None

    return {
        "mixed_groups": mean([is_mixed([sample.is_correct for sample in group]) for group in groups]),
        "distinct_answers": mean([len({sample.source for sample in group}) for group in groups]),
        "mean_tokens": mean(lengths),
        "finished_share": mean([sample.completion.finished for sample in samples]) if lengths else None,
        "clip_share": None if update is None else mean(update.clip_shares),
        "kl": None if update is None else update.kl,
        "entropy": None if update is None else update.entropy,
        "gradient_norm": None if update is None else mean(update.gradient_norms),
    }


def learn(
    context: CellContext,
    journal: Journal,
    model: Model,
    groups: Sequence[Sequence[Sample]],
    chosen: Sequence[int],
    round_index: int,
    begun: Model,
) -> tuple[Model, UpdateFigures | None]:
    """Learn from the chosen samples; returns the model that this leaves, and a policy gradient's figures."""
    if not chosen:
        return model, None
    if context.config.rl.algorithm != "best-of-n":
        answers = weigh_answers(groups, chosen, context.config.rl)
        return _follow_gradient(context, journal, model, answers, round_index, begun)
    samples = [sample for group in groups for sample in group]
    pairs = [(user_message(samples[index].task), samples[index].completion.text) for index in chosen]
    return _finetune(context, journal, model, pairs, round_index), None


def _seed(context: CellContext, journal: Journal, round_index: int) -> int:
    return derive(root_seed(context.config, journal.seed), "reinforce", round_index)


def _finetune(
    context: CellContext, journal: Journal, model: Model, pairs: Sequence[tuple[str, str]], round_index: int
) -> Model:
    config = context.config.rl
    training = training_of(context.config, config, _seed(context, journal, round_index))
    key = work_key(
        "update",
        policy=context.learner.fingerprint,
        adapter=model.key,
        answers=[list(pair) for pair in pairs],
        training=training.identify(),
    )

    def make(folder: Path) -> list[float]:
        context.progress.phase(f"round {round_index + 1}/{config.rounds}: fine-tuning", training.num_steps(len(pairs)))
        tell = tell_steps(context.progress, "rl", len(journal.rows.get("training", ())))
        return context.learner.finetune(model.folder, pairs, training, folder / "adapter", tell)

    work = context.work.once("adapters", key, make)
    journal.seconds.train += work.seconds
    journal.add("training", *training_rows(journal.cell, journal.seed, "rl", round_index, work.value))
    return Model(key=key, folder=adapter_folder(work.folder))


def _follow_gradient(
    context: CellContext, journal: Journal, model: Model, answers: Sequence[Answer], round_index: int, begun: Model
) -> tuple[Model, UpdateFigures]:
    config = context.config.rl
    update = PolicyUpdate(
        algorithm=config.algorithm,
        minibatches=config.minibatches,
        learning_rate=config.learning_rate,
        warmup_steps=config.warmup_steps,
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        kl_coefficient=config.kl_coefficient,
        temperature=config.temperature,
        most_tokens=context.config.policy.max_new_tokens,
        lora_rank=context.config.sft.lora_rank,
        lora_alpha=context.config.sft.lora_alpha,
        lora_dropout=context.config.sft.lora_dropout,
        seed=_seed(context, journal, round_index),
    )
    key = work_key(
        "policy gradient",
        policy=context.learner.fingerprint,
        adapter=model.key,
        start=begun.key,
        answers=to_plain(answers),
        update=to_plain(update),
    )

    def make(folder: Path) -> dict[str, Any]:
        context.progress.phase(f"round {round_index + 1}/{config.rounds}: {config.algorithm}", config.minibatches)
        tell = tell_steps(context.progress, "rl", len(journal.rows.get("training", ())))
        target = folder / "adapter"
        figures = context.learner.reinforce(model.folder, answers, update, begun.folder, target, tell)
        plain: dict[str, Any] = to_plain(figures)
        return plain

    work = context.work.once("adapters", key, make)
    figures = from_plain(work.value, UpdateFigures)
    journal.seconds.train += work.seconds
    journal.add("training", *training_rows(journal.cell, journal.seed, "rl", round_index, figures.losses))
    return Model(key=key, folder=adapter_folder(work.folder)), figures
