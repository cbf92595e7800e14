"""Measures speed and memory of fine-tuning, beside a plain loop over transformers, and on several GPUs.

Ours is `finetune.train`, as SFT and every RL round call it. The plain loop is what one writes with transformers and
peft: padded batches, `model(...).loss`, AdamW. Both take the same weights, pairs, batches, precision, rank and
dropout; rates count the tokens of pairs and no padding; the first step's loss of the two is compared, since there they
compute the same number. The plain loop reads no loss until it ends, so nothing holds it up.

Each of several processes is what `accelerate launch` makes of one of SFT's, with a batch of its own size (weak
scaling): the efficiency is what N processes do over N times what one does. This module is also their program.

`memory_gb` lets the process use no more of the GPU than a smaller one has: an allocation beyond it fails.
"""

from __future__ import annotations

import gc
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from attrs import asdict, evolve, frozen

from ....core.config import PolicyConfig
from ....core.recipe.learner import TrainingStep
from ....core.text.prompts import assistant_message, user_message
from ...errors import TritonrlError
from ...policy.model.load import LoraShape, Policy, load_policy
from ...policy.model.lora_adapters import attach_adapter
from ...policy.training.distributed import ALONE, World, join_world, leave_world
from ...policy.training.finetune import (
    Execution,
    choose_execution,
    draw_batches,
    encode_pairs,
    pad_rows,
    train,
)
from ...policy.training.packing import Pair
from ...tasks.suites import corpus_examples
from ..watching import describe_device, wait_for

PROGRAM = "tritonrl.harness.bench.policy.training"
"""The module that is one process: its arguments are a workload as JSON, and where the first writes the rate."""
LEARNING_RATE = 2e-4
Choice = Literal["auto", "on", "off"]


@frozen(kw_only=True)
class Workload:
    """The training to measure: `batch` pairs a step and process, `warmup` steps of `steps` are not counted.

    Nor is what comes before the first step: there every process captures the sizes of all its batches, so that counted
    steps capture nothing. `Rate.first_step_s` has it, and what `warmup` leaves out is what first steps take otherwise.
    """

    policy: str
    quantization: str = "none"
    suite: str = "core13"
    pairs: int = 512
    batch: int = 8
    steps: int = 60
    warmup: int = 30
    rank: int = 16
    seed: int = 0
    threads: int = 0
    compile: Choice = "auto"
    capture: Choice = "auto"
    memory_gb: float | None = None
    with_plain: bool = True

    @property
    def config(self) -> PolicyConfig:
        quantization: Any = self.quantization
        return PolicyConfig(name=self.policy, quantization=quantization, threads=self.threads)

    @property
    def lora(self) -> LoraShape:
        return LoraShape(rank=self.rank, alpha=2 * self.rank)


@frozen(kw_only=True)
class Rate:
    """One way to train: tokens a second over the counted steps; null where memory did not suffice, or is no GPU's."""

    tokens_per_s: float | None = None
    seconds_a_step: float | None = None
    first_step_s: float | None = None
    peak_gb: float | None = None
    first_loss: float | None = None
    last_loss: float | None = None
    message: str = ""


@frozen(kw_only=True)
class Scaling:
    """Rates of several processes together; `efficiency` is over as many times the rate of one."""

    processes: int
    tokens_per_s: float
    efficiency: float
    seconds_a_step: float


@frozen(kw_only=True)
class TrainingFigures:
    """Training measured; null = not measured."""

    model: str
    quantization: str
    device: str
    dtype: str
    num_parameters: int
    num_trained: int
    batch: int
    tokens_a_step: float
    share_of_padding: float
    execution: Execution
    memory_gb: float | None
    ours: Rate
    plain: Rate | None
    speedup: float | None
    scaling: tuple[Scaling, ...] = ()


def measure_training(workload: Workload, processes: Sequence[int] = ()) -> TrainingFigures:
    """Measure one workload here, and by each number of processes."""
    if workload.threads:
        torch.set_num_threads(workload.threads)
    if workload.memory_gb is not None and torch.cuda.is_available():
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, workload.memory_gb * 1e9 / total))
    policy = load_policy(workload.config)
    encoded = draw_pairs(policy, workload, 1)
    execution = choose(policy, workload, encoded)
    config, device = policy.base.config, policy.device
    facts = {
        "dtype": str(policy.base.dtype).removeprefix("torch."),
        "num_parameters": sum(weight.numel() for weight in policy.base.parameters()),
    }
    attach_adapter(policy, workload.lora, workload.seed)
    facts["num_trained"] = sum(weight.numel() for weight in policy.model.parameters() if weight.requires_grad)
    ours = measure_ours(policy, encoded, workload, execution)
    del policy
    _empty(device)
    plain = None
    if workload.with_plain:
        policy = load_policy(workload.config)
        plain = measure_plain(policy, encoded, workload, execution)
        del policy
        _empty(device)
    batches = draw_batches(encoded, 1, workload.batch, workload.seed)
    lengths = [[len(tokens) for tokens, _ in batch] for batch in batches]
    padded = sum(max(batch) * len(batch) for batch in lengths)
    read = sum(map(sum, lengths))
    other = plain.tokens_per_s if plain else None
    return TrainingFigures(
        model=f"{workload.policy} ({config.model_type})",
        quantization=workload.quantization,
        device=describe_device(device),
        batch=workload.batch,
        tokens_a_step=read / len(batches),
        share_of_padding=1.0 - read / padded,
        execution=execution,
        memory_gb=workload.memory_gb,
        ours=ours,
        plain=plain,
        speedup=ours.tokens_per_s / other if ours.tokens_per_s and other else None,
        scaling=measure_scaling(workload, processes),
        **facts,
    )


def measure_scaling(workload: Workload, processes: Sequence[int]) -> tuple[Scaling, ...]:
    """Measure the rate of each number of processes; that of one always, as a process of its own too."""
    if not processes:
        return ()
    rates = {number: _launch(workload, number) for number in sorted({1, *processes})}
    return tuple(
        Scaling(
            processes=number,
            tokens_per_s=rate["tokens_per_s"],
            efficiency=rate["tokens_per_s"] / (number * rates[1]["tokens_per_s"]),
            seconds_a_step=rate["seconds_a_step"],
        )
        for number, rate in rates.items()
    )


def _launch(workload: Workload, number: int) -> dict[str, Any]:
    """Measure the rate of so many processes together; raises TritonrlError where they fail."""
    command = [sys.executable]
    if number > 1:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        # without --multi_gpu it starts one process where there are no GPUs, whatever number it is given
        command += ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"]
        command += ["--num_processes", str(number)]
        command += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", str(port)]
    with tempfile.TemporaryDirectory(prefix="tritonrl-bench-") as folder:
        answer = Path(folder) / "rate.json"
        command += ["-m", PROGRAM, json.dumps(asdict(workload)), str(answer)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or not answer.exists():
            last = (done.stderr.strip().splitlines() or ["no word"])[-1]
            raise TritonrlError(f"{number} processes ended with exit code {done.returncode}: {last}")
        rate: dict[str, Any] = json.loads(answer.read_text())
        if rate["processes"] != number:
            raise TritonrlError(f"{rate['processes']} of {number} processes were started")
        return rate


def draw_pairs(policy: Policy, workload: Workload, size: int) -> list[Pair]:
    """Draw tokens of as many pairs as `size` processes train on, half of each level; beyond `pairs` they come again."""
    drawn = corpus_examples(f"{workload.suite}:train", workload.seed, -(-workload.pairs // 2), (1, 2))
    texts = [(user_message(one.task), assistant_message(one.solution)) for one in drawn]
    pool = encode_pairs(policy, texts)
    wanted = workload.batch * workload.steps * size
    return [pool[number % len(pool)] for number in range(wanted)]


def choose(policy: Policy, workload: Workload, encoded: Sequence[Pair]) -> Execution:
    """Choose how training is run, but for compiling and capturing where the workload says otherwise."""
    chosen = choose_execution(policy, sum(len(tokens) for tokens, _ in encoded))
    if workload.compile != "auto":
        chosen = evolve(chosen, compile=workload.compile == "on")
    return chosen if workload.capture == "auto" else evolve(chosen, capture=workload.capture == "on")


def measure_ours(
    policy: Policy, encoded: Sequence[Pair], workload: Workload, execution: Execution, world: World = ALONE
) -> Rate:
    """Measure `finetune.train`, whose steps are counted as their losses become known."""
    times: list[float] = []
    points: list[TrainingStep] = []

    def on_step(point: TrainingStep) -> None:
        times.append(time.perf_counter())
        points.append(point)

    _reset_peak(policy.device)
    started = time.perf_counter()
    try:
        train(
            policy,
            encoded,
            epochs=1,
            learning_rate=LEARNING_RATE,
            batch_size=workload.batch * world.size,
            seed=workload.seed,
            on_step=on_step,
            execution=execution,
            world=world,
        )
    except torch.OutOfMemoryError as error:
        return _too_large(error)
    seconds = times[-1] - times[workload.warmup - 1]
    return Rate(
        tokens_per_s=sum(point.num_tokens for point in points[workload.warmup :]) / seconds,
        seconds_a_step=seconds / (len(points) - workload.warmup),
        first_step_s=times[0] - started,
        peak_gb=_peak(policy.device),
        first_loss=points[0].loss,
        last_loss=points[-1].loss,
    )


def measure_plain(policy: Policy, encoded: Sequence[Pair], workload: Workload, execution: Execution) -> Rate:
    """Measure the loop that one writes with transformers and peft."""
    from peft import LoraConfig, get_peft_model

    shape = workload.lora
    lora = LoraConfig(r=shape.rank, lora_alpha=shape.alpha, lora_dropout=shape.dropout, target_modules="all-linear")
    model = get_peft_model(policy.model, lora).train()
    if execution.recompute:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE, weight_decay=0.0)
    losses: list[torch.Tensor] = []
    started = time.perf_counter()
    first_step_s, counted = 0.0, 0
    _reset_peak(policy.device)
    try:
        for step, batch in enumerate(draw_batches(encoded, 1, workload.batch, workload.seed)):
            if step == workload.warmup:
                wait_for(policy.device)
                begun = time.perf_counter()
            rows, mask, answer = pad_rows(policy, batch)
            labels = rows.masked_fill(~answer, -100)
            loss = model(input_ids=rows, attention_mask=mask, labels=labels, use_cache=False).loss
            torch.autograd.backward(loss)
            torch.nn.utils.clip_grad_norm_(weights, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
            if step == 0:
                wait_for(policy.device)
                first_step_s = time.perf_counter() - started
            if step >= workload.warmup:
                counted += sum(len(tokens) for tokens, _ in batch)
        wait_for(policy.device)
    except torch.OutOfMemoryError as error:
        return _too_large(error)
    seconds = time.perf_counter() - begun
    return Rate(
        tokens_per_s=counted / seconds,
        seconds_a_step=seconds / (len(losses) - workload.warmup),
        first_step_s=first_step_s,
        peak_gb=_peak(policy.device),
        first_loss=float(losses[0]),
        last_loss=float(losses[-1]),
    )


def main(arguments: Sequence[str]) -> None:
    """Run one process of several: train, and let the first write the rate."""
    workload, answer = Workload(**json.loads(arguments[0])), Path(arguments[1])
    if workload.threads:
        torch.set_num_threads(workload.threads)
    world = join_world(cpu=not torch.cuda.is_available())
    policy = load_policy(workload.config, world.device)
    encoded = draw_pairs(policy, workload, world.size)
    attach_adapter(policy, workload.lora, workload.seed)
    execution = choose(policy, workload, encoded[: len(encoded) // world.size])
    rate = measure_ours(policy, encoded, workload, execution, world)
    if world.rank == 0:
        answer.write_text(json.dumps({**asdict(rate), "processes": world.size}))
    leave_world()


def _too_large(error: torch.OutOfMemoryError) -> Rate:
    return Rate(message=str(error).splitlines()[0])


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def _peak(device: torch.device) -> float | None:
    return torch.cuda.max_memory_reserved(device) / 1e9 if device.type == "cuda" else None


def _empty(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1:])
