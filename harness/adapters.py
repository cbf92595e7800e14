"""The verifier as a reward function for other trainers.

Three shapes of the same thing: `Scorer.score(task, completion)`; a function with TRL's signature (`prompts`,
`completions`, and the data set's columns as keyword arguments); and verl's `compute_score(data_source, solution_str,
ground_truth, extra_info)`. A task is given as a record, as its JSON, as an id of the corpus, or as a path to
a file in KernelBench's form. What cannot be scored because the data set is wrong raises; a completion that is no kernel
is worth 0.0.
"""

from __future__ import annotations

import atexit
import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any

from ..core.config import Config
from ..core.corpus import render
from ..core.recipe.extensions import AUDIT, RewardSpec, VerifierSpec
from ..core.recipe.reward import combine
from ..core.serialisation import from_plain
from ..core.task import Task
from ..core.text.extraction import extract
from .errors import UsageError
from .service.client import RemoteVerifier
from .settings import with_drawn_seed
from .tasks.suites import task_from_file
from .verification.verifier import Verifier, open_verifier

TaskLike = Task | str | Path | Mapping[str, Any]
Completion = str | Sequence[Mapping[str, Any]]
RewardFunction = Callable[..., list[float]]


class Scorer:
    """A verifier with a reward, and the sandbox that it runs in; a context manager.

    `spec` says how strictly completions are verified, by default as strictly as the audit does. Without a configuration
    the verifier's seed is drawn; one that is given keeps its own, so set `verifier.seed` there to a secret: its default
    is public, and a candidate can be right on the inputs that a known seed draws alone. `jobs` candidates are verified
    at once. With `url` servers verify (`tritonrl serve`), several with commas between: they have seeds and limits of
    their own, and of `config` the reward's part alone counts.
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the sandbox; nothing can be scored after that."""
        self._is_closed = True
        self._open.close()

    def score(self, task: TaskLike, completion: Completion) -> float:
        """The reward of one completion, in [0, 1]."""
        return self.score_many([(task, completion)])[0]

    def score_many(self, pairs: Sequence[tuple[TaskLike, Completion]]) -> list[float]:
        """Rewards in the order of the pairs; equal ones are verified once. Raises UsageError."""
        if self._is_closed:
            raise UsageError("the scorer is closed: score, and train, inside its `with` block")
        texts = [_text(completion, index) for index, (_, completion) in enumerate(pairs)]
        sources = [(read_task(task), extract(text)) for (task, _), text in zip(pairs, texts, strict=True)]
        known = [(task, source) for task, source in sources if source is not None]
        verdicts = iter(self.verifier.verify_many(known, self.spec, self.jobs))
        return [
            0.0
            if source is None
            else combine(next(verdicts), RewardSpec(partial_credit=self.spec.stop_early), self.config.reward).total
            for _, source in sources
        ]


def read_task(task: TaskLike) -> Task:
    """The task that a record, its JSON (text or parsed), an id of the corpus or a file's path names.

    Raises UsageError.
    """
    if isinstance(task, Task):
        return task
    if isinstance(task, Path) or (isinstance(task, str) and _is_path(task)):
        return _read_file(Path(task))
    try:
        if isinstance(task, str):
            return from_plain(json.loads(task), Task) if task.lstrip().startswith("{") else render(task).task
        if isinstance(task, Mapping):
            return from_plain(dict(task), Task)
    except ValueError as error:
        raise UsageError(f"not a task: {error}") from error
    raise UsageError(
        f"not a task: expected a record, its JSON, an id of the corpus or a path to a TASK.py, got {_show_kind(task)}"
    )


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


def make_trl_reward(scorer: Scorer) -> RewardFunction:
    """A reward function for TRL's trainers; the data set has a column `task` or `task_id`.

    Completions are text or, for conversational data sets, lists of messages.
    """

    def triton_reward(
        prompts: Sequence[Any] | None = None, completions: Sequence[Completion] = (), **columns: Any
    ) -> list[float]:
        tasks = columns.get("task", columns.get("task_id"))
        if tasks is None:
            raise UsageError("the data set needs a column task or task_id")
        if len(tasks) != len(completions):
            raise UsageError(f"{len(completions)} completions for {len(tasks)} tasks")
        return scorer.score_many(list(zip(tasks, completions, strict=True)))

    return triton_reward


_DEFAULT: list[Scorer] = []
_DEFAULT_LOCK = threading.Lock()


def compute_score(
    data_source: str, solution_str: str, ground_truth: TaskLike, extra_info: Mapping[str, Any] | None = None
) -> float:
    """verl's custom reward function: `ground_truth` is the task, and one scorer serves the process.

    verl loads a file by its path: name one that says `from tritonrl.harness.adapters import compute_score`.
    """
    with _DEFAULT_LOCK:
        if not _DEFAULT:
            _DEFAULT.append(Scorer())
            atexit.register(_DEFAULT[0].close)
    return _DEFAULT[0].score(ground_truth, solution_str)


def _text(completion: Completion, index: int) -> str:
    """The text of a completion; of a conversation, the last message's. Raises UsageError for what is neither."""
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
