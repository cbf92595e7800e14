"""The steps that cells are made of: sampling, verifying and fine-tuning, each a unit of work that is done once."""

from __future__ import annotations

import math
import random
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import evolve, frozen

from ...core.config import Config, RlConfig, SftConfig
from ...core.recipe.extensions import VerifierSpec
from ...core.recipe.learner import COMPLETIONS, Judge, Learner, OnDrawn, Sampling, Training
from ...core.serialisation import fingerprint, to_plain
from ...core.task import Task
from ...core.text.extraction import extract
from ...core.text.prompts import user_message
from ...core.verdict import Verdict
from ..display import Progress
from ..errors import DriftError, UsageError
from ..work import Work, WorkStore, work_key
from .rows import Journal
from .store import Results


@frozen(kw_only=True)
class Model:
    """A state of the model: the key of the work that made it and its files; both null for the base model."""

    key: str | None = None
    folder: Path | None = None


@frozen(kw_only=True)
class CellContext:
    """The configuration, model, verifier and stores that a cell runs with.

    `given` is the model that reinforcement learning starts from, with any seed, in place of a supervised start.
    `examines` says that cells end with an evaluation on the configuration's held-out tasks. After `until`, a time of
    `time.monotonic`, no round begins but the first.
    """

    config: Config
    learner: Learner
    judge: Judge
    work: WorkStore
    progress: Progress
    jobs: int = 1
    given: Model | None = None
    examines: bool = True
    until: float = math.inf


_GIVEN = "start"
"""The folder in a run's that holds the state which it was given to start from."""


def take_start(results: Results, given: Path | None) -> Model | None:
    """Copy the state that a run is to start from into its folder, where workers and later calls find it.

    Raises DriftError where the folder's run has another start, or where one is given and it has none.
    """
    key = None if given is None else _key_of_start(given)
    recorded, folder = results.recorded(), results.root / _GIVEN
    if recorded is not None and recorded.get("start") != key:
        raise DriftError(f"{results.root}: its run has another start; use another --out, or the same --adapter")
    if folder.exists() and (given is None or _key_of_start(folder) != key):
        # a call that ended before its run began left it
        shutil.rmtree(folder)
    if given is None:
        return None
    if not folder.exists():
        from ..policy.model.states import copy_state

        copy_state(given, folder)
    return Model(key=key, folder=folder)


def find_start(results: Results) -> Model | None:
    """Return the state that the folder's run was given to start from, or None."""
    folder = results.root / _GIVEN
    return Model(key=_key_of_start(folder), folder=folder) if folder.exists() else None


def _key_of_start(folder: Path) -> str:
    from ..policy.model.states import identify_state

    return f"outside {identify_state(folder)}"


@contextmanager
def open_context(
    config: Config,
    results: Results,
    progress: Progress,
    jobs: int,
    num_sharing: int = 1,
    learner: Learner | None = None,
) -> Iterator[CellContext]:
    """Open the real verifier, the folder's work, and the configured model unless a learner is given.

    `num_sharing` processes share each GPU. Where `policy.gpu_memory` says that others do, executors have as large a
    part of its memory as the policy has.
    """
    # both import torch, which a grid's other processes do without
    from ..policy.distributed_learner import load_learner
    from ..verification.verifier import open_verifier

    num_parts = max(num_sharing, int(0.5 / config.policy.gpu_memory))
    with open_verifier(config, results.evidence_path, num_parts) as verifier:
        learner = learner or load_learner(config.policy, results.work)
        yield CellContext(
            config=config,
            learner=learner,
            judge=verifier,
            work=results.work,
            progress=progress,
            jobs=jobs,
            given=find_start(results),
        )


def draw_answers(
    context: CellContext,
    model: Model,
    tasks: Sequence[Task],
    seeds: Sequence[int],
    sampling: Sampling,
    phase: str,
    prompts: Sequence[str] | None = None,
    on_drawn: OnDrawn = lambda *_: None,
) -> Work:
    """Draw a completion for each task, drawn by the seed beside it, as a unit of work that is done once.

    `prompts`: what the model reads for each of them, by default the task's request. The value is a list of pairs: the
    text, and whether it came to its end before the limit of tokens, null where that is not known.
    """
    prompts = prompts or [user_message(task) for task in tasks]
    key = work_key(
        COMPLETIONS,
        policy=context.learner.fingerprint,
        adapter=model.key,
        tasks=[task.task_id for task in tasks],
        prompts=fingerprint(prompts),
        seeds=list(seeds),
        sampling=to_plain(sampling),
    )

    def make(_: Path) -> list[tuple[str, bool]]:
        context.progress.phase(f"{phase}: sampling", len(prompts))
        drawn = context.learner.sample(model.folder, prompts, seeds, sampling, context.progress.advance, on_drawn)
        return [(completion.text, completion.finished) for completion in drawn]

    work = context.work.once(COMPLETIONS, key, make)
    # earlier versions stored texts alone
    return evolve(work, value=[(entry, None) if isinstance(entry, str) else tuple(entry) for entry in work.value])


def draw_tokens(
    context: CellContext,
    model: Model,
    tasks: Sequence[Task],
    seeds: Sequence[int],
    sampling: Sampling,
    phase: str,
    on_drawn: OnDrawn = lambda *_: None,
) -> Work:
    """`draw_answers` with the tokens that were drawn: plain `Completion`s; raises UsageError where vLLM draws them."""
    if context.config.policy.engine != "own":
        raise UsageError("rl.algorithm: a policy gradient learns from policy.engine = own alone")
    prompts = [user_message(task) for task in tasks]
    key = work_key(
        "draws",
        policy=context.learner.fingerprint,
        adapter=model.key,
        prompts=fingerprint(prompts),
        seeds=list(seeds),
        sampling=to_plain(sampling),
    )

    def make(_: Path) -> list[dict[str, Any]]:
        context.progress.phase(f"{phase}: sampling", len(prompts))
        drawn = context.learner.sample(model.folder, prompts, seeds, sampling, context.progress.advance, on_drawn)
        return [to_plain(completion) for completion in drawn]

    return context.work.once("draws", key, make)


@contextmanager
def verifying_ahead(context: CellContext, tasks: Sequence[Task], spec: VerifierSpec) -> Iterator[OnDrawn]:
    """Have answers to the tasks verified while others are drawn, where that takes no GPU, for `verify` to find.

    Yields what is to be called with each; leaving waits for all.
    """
    is_measured = spec.timed and context.config.verifier.timing == "measured"
    if is_measured or context.judge.backend != "interpret":
        yield lambda *_: None
        return
    with context.judge.verify_ahead(spec, context.jobs) as put:
        yield lambda position, completion: put(tasks[position], extract(completion.text) or "")


def verify(
    context: CellContext,
    journal: Journal | None,
    pairs: Sequence[tuple[Task, str]],
    spec: VerifierSpec,
    phase: str,
    failed: dict[str, Exception] | None = None,
) -> list[Verdict]:
    """Return a verdict for each (task, source), in order.

    Where `failed` is given, it has the tasks whose reference fails afterwards, and pairs of these have no verdict;
    without it the first one is raised, a TaskError.
    """
    if not pairs:
        return []
    # equal texts are judged once
    distinct = list({(task.task_id, source): (task, source) for task, source in pairs}.values())
    context.progress.phase(phase, len(distinct))
    # workers that come to the same candidates at the same time begin at different ones, and find each other's evidence
    first = random.randrange(len(distinct))
    turned = [*distinct[first:], *distinct[:first]]
    found: dict[tuple[str, str], Verdict] = {}

    def receive(index: int, verdict: Verdict) -> None:
        task, source = turned[index]
        found[task.task_id, source] = verdict
        context.progress.advance(len(found))

    def pass_over(index: int, error: Exception) -> None:
        assert failed is not None
        failed.setdefault(turned[index][0].task_id, error)

    context.judge.verify_many(turned, spec, context.jobs, receive, None if failed is None else pass_over)
    verdicts = [found[task.task_id, source] for task, source in pairs if task.task_id not in (failed or ())]
    if journal is not None:
        journal.seconds.verify += sum(verdict.seconds for verdict in verdicts)
    return verdicts


def training_of(config: Config, phase: SftConfig | RlConfig, seed: int) -> Training:
    return Training(
        epochs=phase.epochs,
        learning_rate=phase.learning_rate,
        batch_size=phase.batch_size,
        warmup_share=config.sft.warmup_share if isinstance(phase, SftConfig) else 0.0,
        lora_rank=config.sft.lora_rank,
        lora_alpha=config.sft.lora_alpha,
        lora_dropout=config.sft.lora_dropout,
        seed=seed,
        method=phase.method if isinstance(phase, SftConfig) else "lora",
    )


def adapter_folder(folder: Path | None) -> Path | None:
    return None if folder is None else folder / "adapter"
