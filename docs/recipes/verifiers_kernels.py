"""verifiers on two tasks, with a teacher in the place of a model: its first answer is refused, its second one is right.

With a real model no file is needed: vf-eval tritonrl_kernels --env.taskset.suite full:heldout --env.turns 3
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from tritonrl.core.corpus import render
from tritonrl.core.text.prompts import assistant_message
from verifiers.v1.utils.loaders import environment_class, taskset_class


class Teacher:
    """Plays an agent without a model or a program: the same conversation, and what was said to it."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @asynccontextmanager
    async def interaction(self, task: Any) -> Any:
        """Open a conversation about a task."""
        answers = iter(["I cannot do that.", assistant_message(render(task.data.kernel).solution)])

        async def turn(message: str = "") -> Any:
            self.heard.append(message)
            self.last = next(answers)
            return SimpleNamespace(terminated=False, last_reply=self.last)

        yield SimpleNamespace(turn=turn)


async def main() -> None:
    """Find taskset and environment by their package's name, play each task, and score it with verifiers' own hooks."""
    taskset = taskset_class("tritonrl_kernels")
    env_class = environment_class("tritonrl_kernels")
    tasks = list(taskset(taskset_config(num=1)))
    rewards, metrics, heard = [], [], []
    for task in tasks:
        teacher = Teacher()
        env = SimpleNamespace(config=SimpleNamespace(turns=2))
        await env_class.run(env, task, SimpleNamespace(player=teacher))
        trace = SimpleNamespace(last_reply=teacher.last, info={}, metrics={}, rewards={})
        trace.record_metrics = trace.metrics.update
        trace.record_metric = trace.metrics.__setitem__
        trace.record_reward = lambda name, value, weight, trace=trace: trace.rewards.__setitem__(name, value * weight)
        await task.score(trace)
        rewards.append(trace.rewards["kernel_reward"])
        metrics.append(trace.metrics["correct"])
        heard.append(teacher.heard[1])
    print(json.dumps({"keys": [task.key for task in tasks], "rewards": rewards, "correct": metrics, "heard": heard}))


def taskset_config(num: int) -> Any:
    """Return the taskset's own configuration for `num` tasks a level."""
    from tritonrl.harness.adapters.verifiers_taskset import KernelConfig

    return KernelConfig(id="tritonrl_kernels", suite="core13:heldout", num=num)


if __name__ == "__main__":
    asyncio.run(main())
