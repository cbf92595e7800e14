"""verifiers (`verifiers.v1`): a taskset of kernels, and an environment in which a refused kernel may be mended.

    vf-eval tritonrl_kernels --env.taskset.suite full:heldout --env.turns 3 --env.player.model MODEL

verifiers finds a taskset by the name of a top-level package, so this one is installed as `tritonrl_kernels` too. With
more than one turn the model sees the reason of its verdict and tries again; the last answer is what is scored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import verifiers.v1 as vf

from ...core.text.prompts import refusal_message, user_message
from ...core.verdict import Verdict
from .scorer import load_tasks, shared_scorer


class KernelData(vf.TaskData):
    """One kernel to write; `kernel` is the task's id, from which the verifier renders it."""

    kernel: str
    level: int
    family: str


class KernelTask(vf.Task[KernelData, vf.State, vf.TaskConfig]):
    """Scores a rollout by its last answer: the reward, and as metrics how far it got."""

    @property
    def key(self) -> str:
        return str(self.data.kernel)

    @vf.reward
    async def kernel_reward(self, trace: vf.Trace) -> float:
        """Up to 0.7 for correctness and 0.3 for speed; why a kernel failed is noted in the trace."""
        verdict = await judge(self.data.kernel, trace.last_reply)
        trace.info["reason"] = verdict.reason or "correct"
        trace.info["outcome"] = verdict.outcome.code
        trace.info["verifier_seconds"] = verdict.seconds
        return shared_scorer().reward(verdict)

    @vf.metric
    async def verdict(self, trace: vf.Trace) -> dict[str, float]:
        """Whether the answer is valid, compiles and is correct."""
        found = await judge(self.data.kernel, trace.last_reply)
        return {name: float(getattr(found, name)) for name in ("valid", "compiled", "correct")}


class KernelConfig(vf.TasksetConfig):
    """Which tasks: a suite's name, how many a level, and the seed of what is drawn."""

    suite: str = "core13:train"
    num: int = 100
    seed: int = 0


class KernelTaskset(vf.Taskset[KernelTask, KernelConfig]):
    def load(self) -> Iterator[KernelTask]:
        """Yield one task a problem, Level 1 first."""
        for task in load_tasks(self.config.suite, self.config.num, seed=self.config.seed):
            data = KernelData(
                id=task.task_id,
                name=task.task_id,
                prompt=user_message(task),
                kernel=task.task_id,
                level=task.level,
                family=task.family,
            )
            yield KernelTask(data, self.config.task)


class KernelEnvConfig(vf.EnvConfig):
    """Who writes the kernels, and how many answers a rollout may give."""

    player: vf.AgentConfig = vf.AgentConfig()
    turns: int = 1


class KernelEnv(vf.Env[KernelEnvConfig]):
    """Asks for a kernel, and again with the verdict's reason while it is refused and turns are left."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play one rollout."""
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn()
            for _ in range(1, self.config.turns):
                if segment.terminated:
                    break
                verdict = await judge(task.data.kernel, segment.last_reply)
                if verdict.correct:
                    break
                segment = await interaction.turn(refusal_message(verdict.reason))


async def judge(kernel: str, reply: str | None) -> Verdict:
    """Return the verdict on a reply; the verifier works in a thread of its own."""
    return await asyncio.to_thread(lambda: shared_scorer().judge(kernel, reply or ""))
