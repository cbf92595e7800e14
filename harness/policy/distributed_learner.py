"""Several processes as one learner: `accelerate launch -m tritonrl.cli sft ...`, on any number of GPUs.

Process 0 runs the command as it would alone: it alone plans, verifies, writes and prints. Where it trains or samples,
it tells the others the same call, and each computes its share: of every batch in training, of the prompts in sampling.
So whatever runs with one process runs with many, and results are those of one but for rounding and for which
numbers dropout draws. The processes must see the same results folder, which holds the adapters.

A process that fails ends the others: the launcher stops them all, and exits with a code of its own, 1. So an error in
process 0's share of a call ends the command even where a command of one process would go on with the next cell, since
the others wait for it in the middle of that call. A training that diverges does so in all of them, and ends none.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...core.config import Config, PolicyConfig
from ...core.recipe.learner import Learner, Sampling
from ...core.seeds import derive
from ...core.task import Task
from ...core.text.extraction import extract
from ...core.text.prompts import user_message
from ..errors import DivergedError, TritonrlError
from ..work import WorkStore, user_cache
from .api_model import ApiModel, is_api_model
from .learner import PolicyLearner, open_learner
from .training.distributed import World, is_launched, is_started_alone, join_world, leave_world


def _lead(call: str) -> Any:
    """Make a learner's call one that the other processes are told, whose share each of them computes."""

    def lead(self: PolicyLearner, *arguments: Any) -> Any:
        # what listens to the call's progress is process 0's alone
        self.world.broadcast((call, tuple(argument for argument in arguments if not callable(argument))))
        with _ending_all():
            return getattr(PolicyLearner, call)(self, *arguments)

    return lead


class RankZeroLearner(PolicyLearner):
    """The learner of process 0, which broadcasts each call to the others."""

    sample, reinforce, finetune = map(_lead, ("sample", "reinforce", "finetune"))


@contextmanager
def _ending_all() -> Iterator[None]:
    """Turn an error of process 0 alone into one that ends the command: the others are in the middle of the call."""
    try:
        yield
    except (DivergedError, TritonrlError):
        raise
    except Exception as error:
        message = " ".join(f"{type(error).__name__}: {error}".split())
        raise TritonrlError(f"process 0 failed, and the others with it: {message}") from error


def load_learner(config: PolicyConfig, work: WorkStore | None = None) -> Learner:
    """The learner of this process: alone, or leading the processes that follow.

    The answers of a model behind an API are kept in `work`, by default in the user's cache.
    """
    if is_api_model(config.name):
        return ApiModel(config.name, work or WorkStore(root=user_cache()), config.requests)
    return open_learner(config, join_world(), RankZeroLearner if is_launched() else PolicyLearner)


def sample_task(config: Config, task: Task, num: int, adapter: Path | None) -> list[tuple[str, str | None]]:
    """Draw `num` completions for a task, each with the source that is extracted from it."""
    learner = load_learner(config.policy)
    seeds = [derive(config.seed, "sample command", task.task_id, number) for number in range(num)]
    sampling = Sampling.of(config, config.rl)
    completions = learner.sample(adapter, [user_message(task)] * num, seeds, sampling, lambda _: None)
    return [(completion.text, extract(completion.text)) for completion in completions]


@contextmanager
def rank_zero_runs(config: PolicyConfig) -> Iterator[bool]:
    """Run the command in the process of rank 0: yields True there, and False in the others, which have followed it.

    A process that is alone is of rank 0.
    """
    if not is_launched():
        if is_started_alone():
            print(
                "tritonrl: accelerate has started one process; where there are no GPUs for more, "
                "several take its option --multi_gpu, or torchrun",
                file=sys.stderr,
            )
        yield True
        return
    world = join_world()
    if world.rank:
        _follow(config)
        leave_world()
        yield False
        return
    yield True
    # only here: where the command failed, the others may be in the middle of a sum, and the launcher ends them
    world.broadcast(None)
    leave_world()


def _follow(config: PolicyConfig) -> None:
    """Do what process 0 says, until it has nothing more to say."""
    world = join_world()
    learner: PolicyLearner | None = None
    while (message := _listen(world)) is not None:
        call, arguments = message
        # only now: a command that finds everything done loads no model
        learner = learner or open_learner(config, world, PolicyLearner)
        with suppress(DivergedError):  # process 0 has found the same, and says so
            getattr(learner, call)(*arguments, lambda _: None)


def _listen(world: World) -> Any:
    try:
        return world.broadcast(None)
    except RuntimeError as error:
        raise TritonrlError("process 0 has ended before its time; what it said above is the reason") from error
