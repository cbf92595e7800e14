"""inspect_ai: the tasks `tritonrl/kernels`, and a scorer that says why a kernel failed.

    inspect eval tritonrl/kernels --model openai/gpt-5-mini -T suite=full:heldout -T num=20 -T turns=2

The package's entry point for inspect_ai names this module, which is all that registers it. With more than one turn the
model sees the reason of a refused kernel and tries again; the last answer counts.
"""

from __future__ import annotations

import asyncio
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessageUser
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from ...core.text.prompts import refusal_message
from ...core.verdict import Verdict
from ..datasets.export import inspect_row
from .scorer import load_tasks, shared_scorer


@task
def kernels(suite: str = "core13:heldout", num: int = 10, seed: int = 0, turns: int = 1) -> Any:
    """Write Triton kernels for `num` tasks a level of a suite; `turns` tries, each after the first with the reason."""
    samples = [Sample(**inspect_row(one, number)) for number, one in enumerate(load_tasks(suite, num, seed=seed))]
    return Task(dataset=MemoryDataset(samples, name=suite), solver=try_again(turns), scorer=verdicts())


@solver
def try_again(turns: int = 1) -> Solver:
    """Generate, and again with the verifier's reason where a kernel is refused and turns are left."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        for turn in range(turns):
            if turn:
                verdict = await _judge(state.target.text, state.output.completion)
                if verdict.correct:
                    break
                state.messages.append(ChatMessageUser(content=refusal_message(verdict.reason)))
            state = await generate(state)
        return state

    return solve


@scorer(metrics={"correct": [mean(), stderr()], "compiled": [mean()], "reward": [mean(), stderr()]})
def verdicts() -> Scorer:
    """Judge the last answer by the audit verifier: whether it is correct and compiles, its reward, and why."""

    async def score(state: TaskState, target: Target) -> Score:
        verdict = await _judge(target.text, state.output.completion)
        return Score(
            value={
                "correct": float(verdict.correct),
                "compiled": float(verdict.compiled),
                "reward": shared_scorer().reward(verdict),
            },
            answer=state.output.completion,
            explanation=verdict.reason or "correct",
            metadata={"outcome": verdict.outcome.code, "seconds": verdict.seconds},
        )

    return score


async def _judge(task_id: str, completion: str) -> Verdict:
    return await asyncio.to_thread(lambda: shared_scorer().judge(task_id, completion))
