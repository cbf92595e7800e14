"""The verifier as an object: completions in, verdicts or rewards out.

A task is given as a record, as its JSON, as an id of the corpus, or as a path to a file in KernelBench's form. What
cannot be judged because the data set is wrong raises; a completion that is no kernel is a verdict like any other, and
worth 0.0. A whole batch without code is nearly always a fault of the prompts and not of the model, so it is said.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any

from ...core.config import Config
from ...core.corpus import render_task
from ...core.outcome import Outcome
from ...core.recipe.extensions import AUDIT, RewardSpec, VerifierSpec
from ...core.recipe.reward import combine, reward_by_goal
from ...core.serialisation import from_plain
from ...core.task import Task
from ...core.text.extraction import extract
from ...core.verdict import Verdict
from ..errors import UsageError
from ..service.client import RemoteVerifier
from ..settings import read_text, with_drawn_seed
from ..tasks.suites import load_suite, task_from_file
from ..verification.verifier import Verifier, open_verifier

TaskLike = Task | str | Path | Mapping[str, Any]
Completion = str | Sequence[Mapping[str, Any]]


class Scorer:
    """A verifier with a reward, and the sandbox that it runs in; a context manager.

    `spec` says how strictly completions are verified, by default as strictly as the audit does. Without a configuration
    the verifier's seed is drawn; one that is given keeps its own, so set `verifier.seed` there to a secret: its default
    is public, and a candidate can be right on the inputs that a known seed draws alone. `jobs` candidates are verified
    at once. With `url` servers verify (`tritonrl serve`), several with commas between: they have seeds and limits of
    their own, and of `config` the reward's part alone counts. Safe to use from several threads.
    """

    def __init__(
        self, config: Config | None = None, spec: VerifierSpec = AUDIT, jobs: int = 1, url: str | None = None
    ) -> None:
        if jobs < 1:
            raise UsageError(f"jobs: must be >= 1, got {jobs!r}")
        self.config = config or with_drawn_seed()
        self.spec = spec
        self.jobs = jobs
        self._is_closed = False
        self._open = ExitStack()
        self.verifier: Verifier | RemoteVerifier
        if url is None:
            self.verifier = self._open.enter_context(open_verifier(self.config))
        else:
            self.verifier = self._open.enter_context(RemoteVerifier(url))

    def __enter__(self) -> Scorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox; nothing can be judged after that."""
        self._is_closed = True
        self._open.close()

    def judge(self, task: TaskLike, completion: Completion) -> Verdict:
        """Return the verdict on one completion, with its stages, reasons and seconds. Raises UsageError."""
        return self.judge_many([(task, completion)])[0]

    def judge_many(self, pairs: Sequence[tuple[TaskLike, Completion]]) -> list[Verdict]:
        """Return verdicts in the order of the pairs; equal ones are verified once.

        Raises UsageError for what is no task or no completion. Warns where several completions all hold no code.
        """
        if self._is_closed:
            raise UsageError("the scorer is closed: score, and train, inside its `with` block")
        texts = [_text(completion, index) for index, (_, completion) in enumerate(pairs)]
        sources = [(load_task(task), extract(text) or "") for (task, _), text in zip(pairs, texts, strict=True)]
        verdicts = self.verifier.verify_many(sources, self.spec, self.jobs)
        if len(verdicts) > 1 and all(verdict.outcome is Outcome.NO_CODE for verdict in verdicts):
            warnings.warn(
                f"none of these {len(verdicts)} completions holds code, so all are worth 0; the first is "
                f"{texts[0][:80]!r}. Is the prompt a list of chat messages, so that the model's chat template is "
                "applied, and is there room for an answer?",
                RuntimeWarning,
                stacklevel=2,
            )
        return verdicts

    def reward(self, verdict: Verdict) -> float:
        """Return what a verdict is worth, in [0, 1]."""
        config = self.config.reward
        if config.goal != "graded":
            return reward_by_goal(verdict, config.goal, config).total
        return combine(verdict, RewardSpec(partial_credit=self.spec.stop_early), config).total

    def score(self, task: TaskLike, completion: Completion) -> float:
        """Return the reward of one completion, in [0, 1]. Raises UsageError."""
        return self.reward(self.judge(task, completion))

    def score_many(self, pairs: Sequence[tuple[TaskLike, Completion]]) -> list[float]:
        """Return rewards in the order of the pairs; equal ones are verified once. Raises UsageError."""
        return [self.reward(verdict) for verdict in self.judge_many(pairs)]


_SHARED: list[Scorer] = []
_SHARED_LOCK = threading.Lock()


def shared_scorer() -> Scorer:
    """Return the one scorer of this process, opened when first asked for, for tools that call functions alone."""
    with _SHARED_LOCK:
        if not _SHARED:
            _SHARED.append(Scorer(jobs=max(1, len(os.sched_getaffinity(0)))))
            atexit.register(_SHARED[0].close)
        return _SHARED[0]


def verify(
    task: TaskLike, candidate: Completion | Path, *, config: Config | None = None, spec: VerifierSpec = AUDIT
) -> Verdict:
    """Verify one candidate: a source, a completion that holds one, or the path of a module.

    It starts a sandbox and ends it, which takes seconds: a `Scorer` keeps one for many. Raises UsageError.
    """
    with Scorer(config, spec) as scorer:
        return scorer.judge(task, read_text(candidate) if isinstance(candidate, Path) else candidate)


def load_task(task: TaskLike) -> Task:
    """Load the task that a record, its JSON (text or parsed), an id of the corpus or a file's path names.

    Raises UsageError.
    """
    if isinstance(task, Task):
        return task
    if isinstance(task, Path) or (isinstance(task, str) and _is_path(task)):
        return _read_file(Path(task))
    try:
        if isinstance(task, str):
            return from_plain(json.loads(task), Task) if task.lstrip().startswith("{") else render_task(task)
        if isinstance(task, Mapping):
            return from_plain(dict(task), Task)
    except ValueError as error:
        raise UsageError(f"not a task: {error}") from error
    raise UsageError(
        f"not a task: expected a record, its JSON, an id of the corpus or a path to a TASK.py, got {_show_kind(task)}"
    )


def load_tasks(suite: str, num: int = 10, *, levels: Sequence[int] = (1, 2), seed: int = 0) -> list[Task]:
    """Load `num` tasks a level of a suite, such as `core13:train`, `full:heldout` or `kernelbench:FOLDER`.

    `seed` says which of a corpus are drawn. Raises UsageError for a suite or a level that there is none of.
    """
    return [entry.task for entry in load_suite(suite, levels=levels, num=num, seed=seed).tasks]


def _is_path(text: str) -> bool:
    return not text.lstrip().startswith("{") and (text.endswith(".py") or os.path.isfile(text))


def _read_file(path: Path) -> Task:
    # finding a file's sizes takes seconds, and a trainer names the same few files at every step
    try:
        when_changed = path.stat().st_mtime_ns
    except OSError as error:
        raise UsageError(f"not a task: {path}: {error.strerror}") from None
    return _size_file(path.absolute(), when_changed)


@lru_cache(maxsize=1024)
def _size_file(path: Path, _when_changed: int) -> Task:
    return task_from_file(path)


def _text(completion: Completion, index: int) -> str:
    """Return a completion's text; of a conversation, the last message's. Raises UsageError for what is neither."""
    if isinstance(completion, str):
        return completion
    is_conversation = isinstance(completion, Sequence) and not isinstance(completion, bytes)
    if not is_conversation or not all(isinstance(message, Mapping) for message in completion):
        raise UsageError(
            f"completion {index}: expected text, or a list of messages with a `content`, got {_show_kind(completion)}"
        )
    content = completion[-1].get("content") if completion else ""
    return content if isinstance(content, str) else ""


def _show_kind(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, list) and value:
        return f"a list of {type(value[-1]).__name__}"
    return type(value).__name__
