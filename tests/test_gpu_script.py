"""The targets for machines with GPUs give the commands that their settings say."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci/gpu.py"
Recorded = list[tuple[str, list[str]]]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with a space in its path, the script, and a command that records its GPU and arguments."""
    root = tmp_path / "with space"
    (root / ".ci").mkdir(parents=True)
    shutil.copy(SCRIPT, root / ".ci/gpu.py")
    recorder = root / "recorder"
    recorder.write_text('#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES|$*" >> recorded\nexit ${STATUS:-0}\n')
    recorder.chmod(0o755)
    return root


def run(root: Path, target: str, **settings: str) -> tuple[int, Recorded]:
    """The exit status of a target, and (GPU, arguments) of every command it gave, sorted."""
    environment = os.environ | {"TRITONRL": "./recorder", "CUDA_VISIBLE_DEVICES": ""} | settings
    done = subprocess.run([sys.executable, ".ci/gpu.py", target], cwd=root, env=environment, capture_output=True)
    lines = (root / "recorded").read_text().splitlines() if (root / "recorded").exists() else []
    return done.returncode, [(gpu, words.split()) for gpu, _, words in (line.partition("|") for line in sorted(lines))]


def tasks_of(words: list[str]) -> list[int]:
    """The numbers that `--tasks 0-3,8-11` names."""
    ranges = [part.split("-") for part in words[words.index("--tasks") + 1].split(",")]
    return [task for first, last in ranges for task in range(int(first), int(last) + 1)]


def test_an_exam_has_every_task_on_one_gpu(checkout: Path) -> None:
    """Parts that do not divide evenly have every task of both levels once, and are read together at the end."""
    (checkout / "build/gpu/smollm2/core13-8000-1e-3/sft/a/adapters/b/c/adapter").mkdir(parents=True)
    status, commands = run(checkout, "gpu-smollm2-exam", EXAM_GPUS="0 2 5", EXAM_TASKS="41")
    assert status == 0
    parts = [(gpu, words) for gpu, words in commands if "--tasks" in words]
    assert [gpu for gpu, _ in parts] == ["0", "2", "5"]
    assert sorted(task for _, words in parts for task in tasks_of(words)) == list(range(82))
    read = [words for _, words in commands if "--read" in words]
    assert [words.count("--read") for words in read] == [3, 3]


def test_a_run_that_is_cut_off_is_packed(checkout: Path) -> None:
    """A command that does not end well is no reason to lose what it made; one that is to end well ends the target."""
    (checkout / "build/paper/parts").mkdir(parents=True)
    status, commands = run(checkout, "gpu-paper", STATUS="1", PAPER_GRID="--grid none")
    assert status == 1, "packing failed too"
    assert [words[:3] for _, words in commands] == [["ablate", "--grid", "none"], ["pack", "build/paper/run", "--to"]]


def test_a_setting_changes_what_hangs_on_it(checkout: Path) -> None:
    """The folder of a training is named after its suite, pairs and rate."""
    status, commands = run(checkout, "gpu-smollm2", SFT_SUITE="other", SFT_RATE="2e-4")
    assert status != 0, "there is no adapter afterwards"
    ((_, words),) = commands
    assert words[words.index("--out") + 1] == "build/gpu/smollm2/other-8000-2e-4/sft"
    assert "suite=other" in words


def test_exams_are_of_the_policy_that_was_trained(checkout: Path) -> None:
    """One training, then the same options and adapter for every exam; problems of others only where they are named."""
    (checkout / "build/gpu/field/sft/a/adapters/b/c/adapter").mkdir(parents=True)
    for problems, suites in (("", ["dialects:heldout", "field:heldout"]), ("x", ["kernelbench:x"])):
        (checkout / "recorded").unlink(missing_ok=True)
        status, commands = run(checkout, "gpu-field", FIELD_SET="--set sft.num_pairs=5", FIELD_PROBLEMS=problems)
        assert status == 0
        trained = [words for _, words in commands if words[0] == "sft"]
        examined = [words for _, words in commands if "--adapter" in words]
        assert len(trained) == 1
        assert {words[words.index("--suite") + 1] for words in examined} >= set(suites)
        assert all("sft.num_pairs=5" in words for words in trained + examined)


def test_runs_that_differ_in_their_seed_share_the_gpus(checkout: Path) -> None:
    """The GPUs take turns, each run keeps to its part of one's memory, and all are compared at the end."""
    status, commands = run(
        checkout, "gpu-rl", RL_SEEDS="3 4 5", RL_GPUS="0 1", RL_SUITE="long", RL_SET="--set rl.rounds=2"
    )
    assert status == 0
    runs = [(gpu, words) for gpu, words in commands if words[0] == "rl"]
    assert sorted((words[words.index("--seed") + 1], gpu) for gpu, words in runs) == [
        ("3", "0"),
        ("4", "1"),
        ("5", "0"),
    ]
    assert all({"policy.gpu_memory=0.40", "rl.rounds=2", "long:train", "long:heldout"} <= {*words} for _, words in runs)
    (compared,) = [words[1:] for _, words in commands if words[0] == "compare"]
    assert compared == sorted(words[words.index("--out") + 1] for _, words in runs)


def test_controls_start_from_one_state(checkout: Path) -> None:
    """Each run of them is by another algorithm or draws its families otherwise, and is packed."""
    (checkout / "build/gpu/controls/sft/a/adapters/b/c/adapter").mkdir(parents=True)
    status, commands = run(checkout, "gpu-controls", CONTROLS_SET="--set rl.rounds=2")
    assert status == 0
    runs = [words for _, words in commands if words[0] == "ablate"]
    assert len({words[words.index("--adapter") + 1] for words in runs}) == 1
    assert all("rl.rounds=2" in words for words in runs)
    outs = {words[words.index("--out") + 1] for words in runs}
    assert len(outs) == 3
    assert {words[1] for _, words in commands if words[0] == "pack"} == outs


def test_every_target_of_the_makefile_is_one_of_the_script() -> None:
    """Their names agree, both ways."""
    makefile = (SCRIPT.parents[1] / "Makefile").read_text()
    listed = makefile[makefile.index("GPU :=") + 6 : makefile.index(".PHONY")].replace("\\", "").split()
    usage = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True)
    assert usage.returncode == 1
    assert sorted(usage.stderr.split()[-1].split("|")) == sorted(listed)
