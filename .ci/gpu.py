"""Run what is measured or trained on GPUs: `make gpu-NAME SETTING=VALUE ...`, or `python .ci/gpu.py gpu-NAME`.

Each function below is a target of the Makefile of the same name, with `-` for `_`. SETTINGS are their knobs, with their
defaults, and are taken from the environment, where make puts what its command line sets. No virtual environment is
made: TRITONRL names the command, and this Python runs what is a module.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from glob import glob
from pathlib import Path

SETTINGS = {
    "TRITONRL": ".venv/bin/python -m tritonrl.cli",
    "GPU_OUT": "build/gpu",
    # pretraining of `nano`: harness/policy/nano is checkpoint-0.60 of gpu-nano-whole
    "NANO_OUT": "build/nano",
    "NANO_WHOLE": "{NANO_OUT}-whole",
    "NANO_PAIRS": "200000",
    "NANO_SHAPE": "--hidden 256 --heads 4 --kv-heads 2 --layers 8 --mlp 768",
    "NANO_CHECKPOINT": "checkpoint-0.60",
    # SmolLM2-135M-Instruct (`make smollm2`); suite, pairs and learning rate are chosen on validation tasks, each choice
    # on a GPU of its own: CUDA_VISIBLE_DEVICES=1 make gpu-smollm2 SFT_SUITE=full SFT_PAIRS=20000
    "SFT_SUITE": "core13",
    "SFT_PAIRS": "8000",
    "SFT_RATE": "1e-3",
    "SFT_SET": "--set sft.batch_size=16",
    "SFT_OUT": "{GPU_OUT}/smollm2/{SFT_SUITE}-{SFT_PAIRS}-{SFT_RATE}",
    # its exam on held-out tasks, a part on each GPU that is named, once each: a part's executors take as much of a
    # GPU's memory as if they were alone
    "EXAM_GPUS": "0",
    "EXAM_SUITE": "{SFT_SUITE}:heldout",
    "EXAM_TASKS": "100",
    "EXAM_SET": "--set verifier.backend=cuda",
    "EXAM_OUT": "",
    # a policy for the field (harness/presets/field.toml), and its exams: 100 tasks a level of our held-out tasks, in
    # dialects that it was trained in and in those that it never saw, and problems of others in KernelBench's form
    "FIELD_SET": "",
    "FIELD_OUT": "{GPU_OUT}/field",
    "FIELD_TASKS": "100",
    "FIELD_SAMPLES": "2",
    "FIELD_PROBLEMS": "",
    # reinforcement learning on tasks without teachers, of open or long, from a state's folder (gpu-field makes one), a
    # run for each seed; the GPUs take turns. RL_PRESET=speed after gpu-field FIELD_SET="--set sft.draw_launches=true"
    # learns for speed
    "RL_START": "{FIELD_OUT}/start",
    "RL_SUITE": "open",
    "RL_PRESET": "rl",
    "RL_SEEDS": "0 1 2",
    "RL_GPUS": "0",
    "RL_SET": "",
    "RL_OUT": "{GPU_OUT}/rl",
    # the controls of the second ablation (docs/plan-second-ablation.md), after its start is trained once more
    "CONTROLS_OUT": "{GPU_OUT}/controls",
    "CONTROLS_SET": "--set policy.gpu_memory=0.21",
    "CONTROLS_WORKERS": "8",
    "CONTROLS_JOBS": "8",
    # the published ablation
    "PAPER_OUT": "build/paper/run",
    "PAPER_FROM": "build/paper/parts",
    "PAPER_TO": "build/paper/parts",
    "PAPER_SECONDS": "540",
    "PAPER_WORKERS": "8",
    "PAPER_JOBS": "12",
    "PAPER_GRID": "--grid full,controls,noise --preset paper --seeds 3",
    # room for what the references of all evaluation tasks return, 5 GB, so that it is computed once in a worker
    "PAPER_SET": "--set verifier.oracle_cache_mb=6144",
    "PAPER_RATES": "2e-5 5e-5 1e-4 2e-4",
    "PAPER_STARTS": "{PAPER_OUT}",
    "RATES_OUT": "build/paper/rates",
}
INTERPRETED = "--set verifier.backend=interpret --set verifier.timing=none"
ONE_SAMPLE = "--set evaluation.level1_tasks=1 --set evaluation.level2_tasks=0 --set evaluation.samples_per_task=1"
SMOLLM2 = "--preset paper --set policy.max_new_tokens=1536"
CONTROLS = {
    "rloo": "--grid none,staging",
    "best-of-n": "--grid none,staging --set rl.algorithm=best-of-n --set rl.learning_rate=2e-4",
    "success": "--grid none --set curriculum.families=success",
}
TRY = (
    "--grid none,t,msct,c+binary,t+cv15 --preset paper --seeds 1 --set sft.num_pairs=400 --set rl.rounds=2 "
    "--set rl.tasks_per_round=4 --set evaluation.level1_tasks=6 --set evaluation.level2_tasks=6"
)


class Runner:
    """Settings, filled in, and how a command that uses them is run; one that fails ends the script, as in make."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.settings: dict[str, str] = {}
        for name, default in SETTINGS.items():
            self.settings[name] = environment.get(name, default.format(**self.settings))

    def __getitem__(self, name: str) -> str:
        return self.settings[name]

    def words(self, text: str) -> list[str]:
        """Split a command's words, whose {SETTING}s are filled in."""
        return shlex.split(text.format(**self.settings))

    def start(self, command: list[str], output: Path | None = None, **environment: str) -> subprocess.Popen[bytes]:
        """Start a command, which is printed first, as make does."""
        print(shlex.join(command), f"> {output}" if output else "", file=sys.stderr, flush=True)
        if output:
            output.parent.mkdir(parents=True, exist_ok=True)
        with open(output, "wb") if output else open(os.dup(1), "wb") as stdout:
            return subprocess.Popen(command, stdout=stdout, env=os.environ | environment)

    def run(self, command: list[str], output: Path | None = None, *, may_fail: bool = False) -> None:
        """Run a command to its end, its output to a file where one is named."""
        status = self.start(command, output).wait()
        if status and not may_fail:
            sys.exit(status if status > 0 else 1)

    def tritonrl(self, text: str, output: str = "", *, may_fail: bool = False) -> None:
        """Run a command of the project."""
        path = Path(output.format(**self.settings)) if output else None
        self.run(self.words("{TRITONRL} " + text), path, may_fail=may_fail)

    def pretrain(self, text: str) -> None:
        """Run the pretraining of a policy from this folder's sources, which need not be installed."""
        link = Path("build/import/tritonrl")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to("../..")
        os.environ["PYTHONPATH"] = f"build/import:{os.environ.get('PYTHONPATH', '')}"
        self.run([sys.executable, "-m", "tritonrl.harness.bench.policy.pretrain.pretrain", *self.words(text)])

    def only(self, pattern: str) -> str:
        """Returns the one path that a pattern names."""
        found = glob(pattern.format(**self.settings))
        if len(found) != 1:
            sys.exit(f"{len(found)} paths, not one: {pattern.format(**self.settings)}")
        return found[0]


def gpu_nano(runner: Runner) -> None:
    """Pretrain a policy on the corpus' first part; writes checkpoints to NANO_OUT."""
    runner.pretrain(
        "--out {NANO_OUT} --pairs 300000 --minutes 2 --hidden 192 --heads 3 --kv-heads 1 --layers 6 --mlp 576 "
        "--corrupted-share 0.5 --save-at 0.06,0.08,0.1,0.12,0.15"
    )


def gpu_nano_whole(runner: Runner) -> None:
    """Pretrain a policy on the whole corpus, whose pairs are longer; writes checkpoints to NANO_WHOLE."""
    runner.pretrain(
        "--out {NANO_WHOLE} --suite full --pairs {NANO_PAIRS} --minutes 2 --context 2048 --row-length 4096 "
        "--batch-rows 16 {NANO_SHAPE} --corrupted-share 0.5 --save-at 0.1,0.2,0.3,0.4,0.6,1.0"
    )


def gpu_nano_whole_exam(runner: Runner) -> None:
    """Judge one of its checkpoints on validation tasks, as it is and after the quick preset's supervised start."""
    checkpoint = "{NANO_WHOLE}/{NANO_CHECKPOINT}"
    quick = f"--preset quick --set policy.name={checkpoint} --set policy.max_new_tokens=1024 {INTERPRETED}"
    exam = "--suite full:validation --limit 41 --samples 2 --temperature 0.8"
    runner.tritonrl(f"eval {quick} {exam} --out {checkpoint}-base")
    runner.tritonrl(f"sft {quick} --set suite=full {ONE_SAMPLE} --out {checkpoint}-sft")
    adapter = runner.only(f"{checkpoint}-sft/*/adapters/*/*/adapter")
    runner.tritonrl(f"eval {quick} {exam} --adapter {adapter} --out {checkpoint}-tuned")


def gpu_train(runner: Runner) -> None:
    """Measure training and sampling (docs/decisions/0008)."""
    random = "bench train --random"
    runner.tritonrl(f"{random} smollm2-135m --json", "{GPU_OUT}/train-135m-8.json")
    runner.tritonrl(f"{random} smollm2-135m --batch 32 --json", "{GPU_OUT}/train-135m-32.json")
    large = "qwen2.5-coder-7b --quantization 8bit --memory-gb 40 --steps 10 --warmup 3 --no-with-plain"
    runner.tritonrl(f"{random} {large} --json", "{GPU_OUT}/train-7b-8bit.json")
    runner.tritonrl("bench sample --random smollm2-135m --json", "{GPU_OUT}/sample-135m.json")


def gpu_scale(runner: Runner) -> None:
    """Measure training on two and four GPUs, one process each."""
    runner.tritonrl(
        "bench train --random smollm2-135m --batch 32 --steps 160 --warmup 100 --no-with-plain --processes 2,4 --json",
        "{GPU_OUT}/scale-135m.json",
    )


def gpu_verifier(runner: Runner) -> None:
    """Measure the verifier (docs/decisions/0006 and 0010); a bar that is missed does not end it."""
    for text, output in (
        ("doctor", "doctor.txt"),
        ("bench verify --backend cuda --set verifier.timing=measured", "verify.txt"),
        ("bench timing -n 30 --visits 5 --repeats 3 --json", "timing.json"),
        ("bench agreement -n 500", "agreement.txt"),
        ("bench gpu-crashes -n 200 --set limits.wall_s=3", "crashes.txt"),
        ("bench attacks tests/attacks --backend cuda --set verifier.timing=measured", "attacks.txt"),
    ):
        runner.tritonrl(text, "{GPU_OUT}/" + output, may_fail=True)


def gpu_smollm2(runner: Runner) -> None:
    """Train SmolLM2 by supervision and judge it on validation tasks."""
    runner.tritonrl(
        f"sft {SMOLLM2} --set suite={{SFT_SUITE}} --set sft.num_pairs={{SFT_PAIRS}} {{SFT_SET}} "
        f"--set sft.learning_rate={{SFT_RATE}} {INTERPRETED} {ONE_SAMPLE} --out {{SFT_OUT}}/sft"
    )
    runner.tritonrl(
        f"eval {SMOLLM2} {INTERPRETED} --adapter {runner.only('{SFT_OUT}/sft/*/adapters/*/*/adapter')} "
        "--suite {SFT_SUITE}:validation --limit 41 --samples 2 --out {SFT_OUT}/validation"
    )


def gpu_smollm2_exam(runner: Runner) -> None:
    """Judge it on held-out tasks of both levels, a part on each of EXAM_GPUS with its share of the processors."""
    out = runner["EXAM_OUT"] or f"{runner['SFT_OUT']}/exam-{runner['EXAM_SUITE'].replace(':', '-')}"
    gpus, tasks = runner["EXAM_GPUS"].split(), int(runner["EXAM_TASKS"])
    jobs = str(len(os.sched_getaffinity(0)) // len(gpus))
    adapter = runner.only("{SFT_OUT}/sft/*/adapters/*/*/adapter")
    started = []
    for part, gpu in enumerate(gpus):
        first, last = part * tasks // len(gpus), (part + 1) * tasks // len(gpus) - 1
        command = runner.words(
            f"{{TRITONRL}} eval {SMOLLM2} {{EXAM_SET}} --jobs {jobs} --adapter {adapter} --suite {{EXAM_SUITE}} "
            f"--limit {tasks} --samples 10 --tasks {first}-{last},{tasks + first}-{tasks + last} "
            f"--out {out}/part-{part}"
        )
        started.append(runner.start(command, CUDA_VISIBLE_DEVICES=gpu, OMP_NUM_THREADS=jobs))
    for process in started:
        process.wait()
    parts = " ".join(f"--read {out}/part-{part}" for part in range(len(gpus)))
    runner.tritonrl(f"eval {parts} --json", f"{out}/exam.json")
    runner.tritonrl(f"eval {parts}")


def gpu_field(runner: Runner) -> None:
    """Train SmolLM2 for the problems of the field, unless FIELD_OUT has it, and examine it; what is done is kept."""
    runner.tritonrl(f"sft --preset field {{FIELD_SET}} {INTERPRETED} {ONE_SAMPLE} --out {{FIELD_OUT}}/sft")
    adapter = runner.only("{FIELD_OUT}/sft/*/adapters/*/*/adapter")
    exam = f"eval --preset field {{FIELD_SET}} {{EXAM_SET}} --adapter {adapter}"
    ours = "--limit {FIELD_TASKS} --samples {FIELD_SAMPLES} --temperature 0.2"
    exams = {"heldout": f"--suite field:heldout {ours}", "heldout-dialects": f"--suite dialects:heldout {ours}"}
    if runner["FIELD_PROBLEMS"]:
        exams["problems"] = "--suite kernelbench:{FIELD_PROBLEMS} --samples 10 --temperature 0.7 --criterion audit"
    for name, questions in exams.items():
        runner.tritonrl(f"{exam} {questions} --out {{FIELD_OUT}}/{name}")
        runner.tritonrl(f"eval --read {{FIELD_OUT}}/{name} --json", f"{{FIELD_OUT}}/{name}.json")


def gpu_rl(runner: Runner) -> None:
    """Train by reinforcement without teachers, seeds side by side, examine each at 0.2 and 1.0, and compare them."""
    gpus, seeds = runner["RL_GPUS"].split(), runner["RL_SEEDS"].split()
    jobs = max(1, len(os.sched_getaffinity(0)) // len(seeds))
    share = 0.8 / -(-len(seeds) // len(gpus))
    exam = "--eval-suite {RL_SUITE}:heldout --eval-limit 100 --eval-samples 4 --eval-temperatures 0.2,1.0"
    started = []
    for number, seed in enumerate(seeds):
        command = runner.words(
            f"{{TRITONRL}} rl --preset {{RL_PRESET}} --set policy.gpu_memory={share:.2f} {{RL_SET}} "
            f"--suite {{RL_SUITE}}:train "
            f"{exam} --jobs {jobs} --adapter {{RL_START}} --seed {seed} --display plain --log jsonl "
            f"--out {{RL_OUT}}/{seed}"
        )
        started.append(runner.start(command, CUDA_VISIBLE_DEVICES=gpus[number % len(gpus)]))
    statuses = [process.wait() for process in started]
    if any(statuses):
        sys.exit(1)
    runner.tritonrl("compare " + " ".join(f"{{RL_OUT}}/{seed}" for seed in seeds))


def gpu_controls(runner: Runner) -> None:
    """Train the second ablation's start once more, and from it three seeds of each of its controls."""
    start = "--set sft.num_pairs=20000 --set sft.method=lora --set sft.learning_rate=1e-3"
    start += " --set sft.lora_rank=32 --set sft.lora_alpha=64"
    runner.tritonrl(f"sft --preset field {start} {INTERPRETED} {ONE_SAMPLE} --out {{CONTROLS_OUT}}/sft")
    adapter = runner.only("{CONTROLS_OUT}/sft/*/adapters/*/*/adapter")
    for name, grid in CONTROLS.items():
        runner.tritonrl(
            f"ablate --preset ablation {grid} --seeds 3 --adapter {adapter} {{CONTROLS_SET}} "
            f"--workers {{CONTROLS_WORKERS}} --jobs {{CONTROLS_JOBS}} --display plain --out {{CONTROLS_OUT}}/{name}"
        )
        # small enough to be sent, unlike the work that was cut off
        runner.tritonrl(f"pack {{CONTROLS_OUT}}/{name} --to {{CONTROLS_OUT}}/parts/{name}")


def gpu_paper(runner: Runner) -> None:
    """Go on with the published ablation for PAPER_SECONDS, on a machine that may then be gone.

    It starts from the parts in PAPER_FROM, or from the seeds that are published there, unless the run is here already,
    and is written to the parts in PAPER_TO at every end. Repeat it until 66 of 66 are complete.
    """
    source, out = Path(runner["PAPER_FROM"]), Path(runner["PAPER_OUT"])
    if not (out / "run.json").exists() and ((source / "run.json").exists() or any(source.glob("*.part"))):
        runner.tritonrl("unpack {PAPER_FROM} --out {PAPER_OUT}")
    limit = runner.words("timeout --signal=INT --kill-after=20 {PAPER_SECONDS} {TRITONRL} ablate {PAPER_GRID}")
    workers = runner.words(
        "{PAPER_SET} --workers {PAPER_WORKERS} --jobs {PAPER_JOBS} --display plain --out {PAPER_OUT}"
    )
    runner.run([*limit, *workers], may_fail=True)
    runner.tritonrl("pack {PAPER_OUT} --to {PAPER_TO}")


def gpu_paper_rates(runner: Runner) -> None:
    """Compare RL's learning rates by the rewards on training tasks alone: the baseline at each, side by side.

    The GPUs take turns. Supervised starts in PAPER_STARTS, the folder of an earlier run, are not trained again.
    """
    listed = subprocess.check_output(["nvidia-smi", "-L"]) if shutil.which("nvidia-smi") else b""
    num_gpus = max(1, len(listed.splitlines()))
    rates, started = runner["PAPER_RATES"].split(), []
    for number, rate in enumerate(rates):
        out = Path(runner["RATES_OUT"], rate)
        out.mkdir(parents=True, exist_ok=True)
        adapters = Path(runner["PAPER_STARTS"], "work/adapters")
        if adapters.is_dir():
            shutil.copytree(adapters, out / "work/adapters", symlinks=True, dirs_exist_ok=True)
        command = runner.words(
            f"{{TRITONRL}} ablate --grid none --preset paper --seeds 1 {ONE_SAMPLE} --set evaluation.round_samples=0 "
            f"--set rl.learning_rate={rate} {{PAPER_SET}} --jobs {{PAPER_JOBS}} --display none --out {out}"
        )
        started.append(runner.start(command, CUDA_VISIBLE_DEVICES=str(number % num_gpus)))
    for process in started:
        process.wait()
    import polars

    for rate in rates:
        rounds = polars.read_parquet(Path(runner["RATES_OUT"], rate, "rounds.parquet")).sort("round")
        print(f"{rate}: mean reward by round\n{' '.join(f'{mean:.3f}' for mean in rounds['mean_reward'])}")


def gpu_paper_try(runner: Runner) -> None:
    """Run the ablation in small, to see that it goes and how long what takes: cut off once, and resumed."""
    shutil.rmtree("build/paper-try", ignore_errors=True)
    parts = "build/paper-try/parts"
    for seconds in ("75", "150"):
        small = {
            "PAPER_GRID": TRY,
            "PAPER_WORKERS": "2",
            "PAPER_SECONDS": seconds,
            "PAPER_FROM": parts,
            "PAPER_TO": parts,
        }
        gpu_paper(Runner(os.environ | small | {"PAPER_OUT": f"build/paper-try/{seconds}"}))
    runner.tritonrl("report build/paper-try/150 --format markdown")


TARGETS = {name.replace("_", "-"): run for name, run in list(globals().items()) if name.startswith("gpu_")}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: python .ci/gpu.py {'|'.join(TARGETS)}")
    os.chdir(Path(__file__).resolve().parents[1])
    TARGETS[sys.argv[1]](Runner(os.environ))
