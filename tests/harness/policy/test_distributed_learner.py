"""Processes that a launcher starts together do what one does; a policy waits for its turn on a GPU."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from attrs import define, field
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.config import PolicyConfig
from tritonrl.harness.command_line import guarded
from tritonrl.harness.errors import DivergedError, TritonrlError, UsageError
from tritonrl.harness.gpu.gpu_lock import GpuLock
from tritonrl.harness.policy import distributed_learner
from tritonrl.harness.policy import learner as learner_module
from tritonrl.harness.policy.learner import PolicyLearner, holding_gpu_lock, open_gpu_lock, open_learner
from tritonrl.harness.policy.training.distributed import World

COMMAND = """
import json, sys
from pathlib import Path
from tritonrl.core.config import PolicyConfig
from tritonrl.core.recipe.learner import Answer, PolicyUpdate, Sampling, Training
from tritonrl.harness.policy.distributed_learner import rank_zero_runs, load_learner

config, out = PolicyConfig(threads=1), Path(sys.argv[1])
training = Training(epochs=1, learning_rate=1e-3, batch_size=3, warmup_share=0.0, lora_rank=4, lora_alpha=8,
                    lora_dropout=0.0, seed=5)
pairs = [(f"write {number}", f"def f(x):\\n    return x * {number}" + " + 1" * number) for number in range(7)]
prompts, told = ["write 3", "write 3", "write 8", "write 9", "write 9"], []
with rank_zero_runs(config) as leads:
    if leads:
        learner = load_learner(config)
        losses = learner.finetune(None, pairs, training, out / "adapter", told.append)
        written = learner.sample(out / "adapter", prompts, range(5), Sampling(temperature=0.8, top_p=1.0,
                                 max_new_tokens=24), told.append)
        drawn = learner.sample(out / "adapter", prompts, range(5), Sampling(temperature=0.8, top_p=1.0,
                             max_new_tokens=24), told.append)
        assert drawn == written
        texts = [one.text for one in written]
        answers = [Answer(prompt=prompt, tokens=one.tokens, advantage=1.0 - 0.5 * number)
                   for number, (prompt, one) in enumerate(zip(prompts, drawn))]
        update = PolicyUpdate(algorithm="rloo", minibatches=2, learning_rate=1e-3, warmup_steps=1, clip_low=0.2,
                              clip_high=0.28, kl_coefficient=0.1, temperature=0.8, most_tokens=24, lora_rank=4,
                              lora_alpha=8, lora_dropout=0.0, seed=7)
        figures = learner.reinforce(out / "adapter", answers, update, None, out / "next/adapter", lambda _: None)
        learned = [*figures.losses, *figures.gradient_norms, figures.kl, figures.entropy]
        (out / "found.json").write_text(json.dumps([losses, texts, told[-1], learned]))
        print("the command has run")
"""


def test_launched_processes_do_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes of torchrun train, sample and reinforce what one does; the command itself runs in one alone."""
    script, two, one = (tmp_path / name for name in ("command.py", "two", "one"))
    script.write_text(COMMAND)
    two.mkdir()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [sys.executable, *launcher, str(script), str(two)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the command has run") == 1
    losses, texts, last, learned = json.loads((two / "found.json").read_text())

    one.mkdir()
    monkeypatch.setattr(sys, "argv", [str(script), str(one)])
    runpy.run_path(str(script))
    expected, written, _, alone = json.loads((one / "found.json").read_text())
    assert learned == pytest.approx(alone, rel=1e-3, abs=1e-5)
    assert len(losses) == 3
    assert losses == pytest.approx(expected, rel=1e-4)
    assert texts == written
    assert len(set(texts)) > 2
    assert last == 5


def test_vllm_is_for_one_process() -> None:
    """vLLM spreads over GPUs itself, so several processes of ours with it are an error of usage."""
    with pytest.raises(UsageError, match="start one process"):
        open_learner(PolicyConfig(engine="vllm"), World(rank=0, size=2), PolicyLearner)


@define
class Spoken:
    """What process 0 of two has said; nobody hears it."""

    size: int = 2
    rank: int = 0
    messages: list[Any] = field(factory=list)

    def broadcast(self, message: Any) -> Any:
        self.messages.append(message)
        return message


@pytest.mark.parametrize("call", ["sample", "finetune", "reinforce"])
def test_an_error_in_process_0_ends_the_command(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """The others wait in the middle of a call, so its failure is no cell's; a training that diverges is one."""
    leader = object.__new__(distributed_learner.RankZeroLearner)
    leader.world = Spoken()  # type: ignore[assignment]
    for error, expected in ((RuntimeError("out of\nmemory"), TritonrlError), (DivergedError("nan"), DivergedError)):

        def fail(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(PolicyLearner, call, fail)
        with pytest.raises(expected) as raised:
            getattr(leader, call)(None, [], [], None, None, *([None] if call == "reinforce" else []))
        assert isinstance(raised.value, DivergedError) or "process 0 failed" in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_process_that_follows_outlives_a_training_that_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process 0 goes on with another cell after it, and so do the others."""
    messages = iter([("finetune", (1,)), ("finetune", (2,)), None])
    called: list[int] = []

    class Diverging:
        def finetune(self, number: int, _: object) -> None:
            called.append(number)
            raise DivergedError("nan")

    monkeypatch.setattr(distributed_learner, "join_world", Spoken)
    monkeypatch.setattr(distributed_learner, "_listen", lambda _: next(messages))
    monkeypatch.setattr(distributed_learner, "open_learner", lambda *_: Diverging())
    distributed_learner._follow(PolicyConfig())
    assert called == [1, 2]


def test_a_process_that_accelerate_started_alone_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without GPUs `accelerate launch` starts one process, however many were asked for, and says nothing."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    for told, environment in ((False, {}), (True, {"ACCELERATE_MIXED_PRECISION": "no"})):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with distributed_learner.rank_zero_runs(PolicyConfig()) as leads:
            assert leads
        assert ("--multi_gpu" in capsys.readouterr().err) == told


def test_processes_say_who_they_are(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Of several processes that fail, all but the first name themselves in their line."""

    def fail() -> None:
        raise UsageError("no such thing")

    for size, rank, line in (("1", "1", "no such"), ("2", "0", "no such"), ("2", "1", "process 1: no such")):
        monkeypatch.setenv("WORLD_SIZE", size)
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(typer.Exit) as ended:
            guarded(fail)()
        assert ended.value.exit_code == 2
        assert capsys.readouterr().err == f"tritonrl: {line} thing\n"


@given(st.integers(0, 40), st.integers(1, 9))
def test_shares_hold_every_item_once(number: int, size: int) -> None:
    """The processes' shares, one after the other, are all items in order, and none has two more than another."""
    shares = [list(range(number))[World(rank=rank, size=size).slice_of(number)] for rank in range(size)]
    assert [item for share in shares for item in share] == list(range(number))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def time_once(lock: GpuLock, timed: threading.Event) -> threading.Thread:
    """A thread that waits for the GPU to itself."""

    def run() -> None:
        with lock.exclusive():
            timed.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_nobody_times_while_the_policy_has_its_turn(tmp_path: Path) -> None:
    """Whoever wants the GPU to itself waits until the policy is done."""
    lock, timed, told = GpuLock("gpu", tmp_path), threading.Event(), list[int]()
    with holding_gpu_lock(lock, told.append) as report:
        thread = time_once(GpuLock("gpu", tmp_path), timed)
        report(3)
        assert not timed.wait(0.2)
    thread.join(10)
    assert timed.is_set()
    assert told == [3]


def test_a_long_turn_is_let_go_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the turn has been held for long, a report lets those who wait to time go first."""
    monkeypatch.setattr(learner_module, "HOLD_S", 0.0)
    lock, timed = GpuLock("gpu", tmp_path), threading.Event()
    with holding_gpu_lock(lock, lambda _: None) as report:
        thread = time_once(GpuLock("gpu", tmp_path), timed)
        for done in range(100):
            report(done)
            if timed.wait(0.05):
                break
        assert timed.is_set()
        again = threading.Event()
        other = time_once(GpuLock("gpu", tmp_path), again)
        assert not again.wait(0.2)  # the policy has its turn back
    thread.join(10)
    other.join(10)


def test_memory_in_reserve_is_given_back_at_the_end_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Letting go keeps it, since it is wanted again at once; after the turn others may have it."""
    lock, done = GpuLock("gpu", tmp_path), list[str]()
    monkeypatch.setattr(learner_module, "HOLD_S", 0.0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: done.append("settled"))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: done.append("given back"))
    with holding_gpu_lock(lock, lambda _: None) as report:
        report(1)
        assert done == ["settled"]
    assert done == ["settled", "settled", "given back"]


def test_a_processor_has_no_turns() -> None:
    """Without a GPU nothing is timed, and what is reported is passed on as it is."""
    assert open_gpu_lock(torch.device("cpu")) is None
    told: list[int] = []
    with holding_gpu_lock(None, told.append) as report:
        report(1)
    assert told == [1]
