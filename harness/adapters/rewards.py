"""Reward functions in the shapes that trainers call, TRL's and verl's, and a policy as transformers has it.

TRL hands a batch over, with the data set's columns and two functions to log with as keyword arguments; verl hands over
one completion, and loads the function from a file by its path. Neither package is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.config import PolicyConfig
from ..errors import UsageError
from .scorer import Completion, Scorer, TaskLike, shared_scorer

RewardFunction = Callable[..., list[float]]


def make_trl_reward(scorer: Scorer) -> RewardFunction:
    """Make a reward function for TRL's trainers; the data set has a column `task` or `task_id`.

    Completions are text or, for conversational data sets, lists of messages. Where TRL offers to log, it logs the share
    that holds code, compiles and is correct, and the reason and the verifier's seconds beside each completion.
    """

    def triton_reward(
        prompts: Sequence[Any] | None = None, completions: Sequence[Completion] = (), **columns: Any
    ) -> list[float]:
        tasks = columns.get("task", columns.get("task_id"))
        if tasks is None:
            raise UsageError("the data set needs a column task or task_id")
        if len(tasks) != len(completions):
            raise UsageError(f"{len(completions)} completions for {len(tasks)} tasks")
        verdicts = scorer.judge_many(list(zip(tasks, completions, strict=True)))
        log_extra, log_metric = columns.get("log_extra"), columns.get("log_metric")
        if log_extra is not None:
            log_extra("reason", [verdict.reason or "correct" for verdict in verdicts])
            log_extra("verifier_seconds", [verdict.seconds for verdict in verdicts])
        if log_metric is not None and verdicts:
            for rate in ("valid", "compiled", "correct"):
                log_metric(f"tritonrl/{rate}", sum(getattr(verdict, rate) for verdict in verdicts) / len(verdicts))
        return [scorer.reward(verdict) for verdict in verdicts]

    return triton_reward


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: TaskLike,
    extra_info: Mapping[str, Any] | None = None,
    **_: Any,
) -> dict[str, Any]:
    """Score a completion for verl; `ground_truth` is the task, and one scorer serves the process.

    It answers `score`, which verl trains on, and what verl logs beside it: `correct`, `compiled`, `reason`, `seconds`.
    Further keywords, which reward managers send, are no matter. Raises UsageError.
    """
    (found,) = compute_scores([data_source], [solution_str], [ground_truth])
    return found


def compute_scores(
    data_sources: Sequence[str],
    solution_strs: Sequence[str],
    ground_truths: Sequence[TaskLike],
    extra_infos: Sequence[Mapping[str, Any]] | None = None,
    **_: Any,
) -> list[dict[str, Any]]:
    """Score a batch for verl's reward manager `batch`, as `compute_score` does one. Raises UsageError."""
    scorer = shared_scorer()
    return [
        {
            "score": scorer.reward(verdict),
            "correct": float(verdict.correct),
            "compiled": float(verdict.compiled),
            "reason": verdict.reason,
            "seconds": verdict.seconds,
        }
        for verdict in scorer.judge_many(list(zip(ground_truths, solution_strs, strict=True)))
    ]


def load_policy(name: str = "nano", device: str | None = None) -> tuple[Any, Any]:
    """Load a policy's model and tokenizer: `nano`, which is shipped, or whatever `policy.name` takes.

    In float32 on the CPU and in bfloat16 on a GPU, `device` being a GPU where there is one. Raises UsageError where it
    cannot be loaded.
    """
    from ..policy.model.load import load_policy as load

    policy = load(PolicyConfig(name=name), device)
    return policy.model, policy.tokenizer
