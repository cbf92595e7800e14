"""The command line: its JSON, its exit codes, and one line on stderr for each error."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
import tritonrl
from tritonrl.core.corpus import Split, examples
from tritonrl.harness.display import Progress
from tritonrl.harness.settings import to_toml
from tritonrl.harness.study.grid import parse_grid, run_grid
from tritonrl.harness.study.store import Results

from .command import invoke
from .harness.context_stub import stub_context, tiny_config

EXAMPLE = next(iter(examples(Split.TRAIN, 1, 0, families=("softmax",))))
TASK = EXAMPLE.task.task_id
BROKEN = "import torch\n\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
KEYS = {"task", "candidate", "backend", "stages", "reached", "valid", "compiled", "correct", "speedup", "reward"}
KEYS |= {"torch_operators", "declared", "seed"}
COMMANDS = [
    *(["verify"], ["ablate"], ["report"], ["pack"], ["unpack"], ["sft"], ["rl"], ["eval"], ["sample"], ["show"]),
    ["doctor"],
    *(["tasks", "ls"], ["tasks", "show"], ["tasks", "validate"], ["tasks", "export"]),
    *(
        ["serve"],
        ["bench", "load"],
        ["bench", "verify"],
        ["bench", "fuzz"],
        ["bench", "mutants"],
        ["bench", "false-rejects"],
        ["bench", "soak"],
        ["bench", "exam"],
    ),
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished results folder of stand-ins, with the configuration that made it."""
    root = tmp_path_factory.mktemp("finished")
    results, config = Results(root=root / "out"), tiny_config()
    run_grid(results, config, parse_grid("none,msct"), range(1), lambda: stub_context(results, config), Progress())
    (root / "config.toml").write_text(to_toml(config))
    return root


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_of_every_command_shows_an_example(command: list[str]) -> None:
    """Every command explains itself with an example of its own use."""
    result = invoke(*command, "--help")
    assert result.exit_code == 0
    assert f"Example: tritonrl {' '.join(command)}" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["verify"],
        ["verify", __file__, "--task", "l1-nothing"],
        ["verify", __file__, "--task", "nothing.py"],
        ["verify", __file__, "--task", TASK, "--set", "verifier.target=hopper"],
        ["verify", "--batch", "nothing.jsonl"],
        ["sample", "--task", "l1-nothing"],
        ["serve", "--preset", "quik"],
        ["bench", "verify", "--backend", "tpu"],
        ["eval", "--suite", "core13:nothing"],
        ["eval", "--suite", "core13:heldout", "--levels", "one"],
        ["eval", "--suite", "core13:heldout", "--criterion", "suite"],
        ["eval", "--read", "nothing"],
        ["rl", "--eval-suite", "nothing"],
        ["sft", "--data", "nothing.jsonl"],
        ["compare", "nothing"],
        ["doctor", "--set", "rl.round=1"],
        ["tasks", "ls", "--suite", "nothing"],
        ["tasks", "show", "nothing"],
        ["tasks", "export", "--format", "nothing", "--out", "tasks.jsonl"],
    ],
    ids=" ".join,
)
def test_help_and_usage_errors_import_nothing_heavy(arguments: list[str]) -> None:
    """None of the libraries that take seconds is loaded for them, nor is the corpus."""
    script = (
        f"import sys; sys.argv = {['tritonrl', *arguments]}\n"
        "from tritonrl.cli import main\n"
        "try: main()\n"
        f"except SystemExit as end: assert end.code == {0 if '--help' in arguments else 2}\n"
        "heavy = {'torch', 'triton', 'polars', 'transformers', 'numpy', 'tritonrl.core.corpus'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["verify"], "--batch"),
        (["verify", "missing.py", "--task", TASK], "missing.py"),
        (["verify", __file__, "--task", "l1-nothing"], "l1-nothing"),
        (["verify", __file__, "--task", TASK, "--extensions", "x"], "--extensions"),
        (["verify", __file__, "--task", TASK, "--backend", "tpu"], "verifier.backend"),
        (["verify", __file__, "--task", TASK, "--set", "verifier.target=hopper"], "verifier.target"),
        (["verify", __file__, "--task", TASK, "--set", "verifier.target=sm_12"], "verifier.target"),
        (["tasks", "export", "-n", "1", "--out", "/proc/pairs.jsonl"], "/proc"),
        (["rl", "--extensions", "full"], "--extensions full"),
        (["ablate", "--grid", "fool"], "--grid"),
        (["ablate", "--preset", "quik"], "--preset"),
        (["ablate", "--set", "rl.round=1"], "rl.round"),
        (["ablate", "--set", "rl.rounds=2.5"], "rl.rounds"),
        (["ablate", "--executor", "cloud"], "--executor"),
        (["ablate", "--set", "timing.warmup=3"], "timing.warmup"),
        (["report", "/nonexistent"], "/nonexistent"),
        (["pack", "/nonexistent", "--to", "/nonexistent"], "/nonexistent"),
        (["unpack", "/nonexistent", "--out", "/nonexistent"], "/nonexistent"),
        (["tasks", "ls", "--suite", "core13:all"], "--suite"),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(arguments: list[str], named: str) -> None:
    """Bad input gives exit 2 and one line on stderr that names what was wrong, and nothing on stdout."""
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert named in result.stderr
    assert result.stdout == ""


def test_the_version_is_told() -> None:
    """`--version` prints it and nothing else, and exits 0."""
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"tritonrl {tritonrl.__version__}\n")


def test_unknown_option_is_exit_2() -> None:
    """The parser's own refusals are usage errors too."""
    assert invoke("ablate", "--gird", "full").exit_code == 2


def test_finished_grid_is_reported_as_cached(finished: Path) -> None:
    """Running a finished grid again is exit 0, says that all is cached, and needs no model."""
    arguments = ("ablate", "--grid", "none,msct", "--config", finished / "config.toml", "--out", finished / "out")
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout) == {
        "out": str(finished / "out"),
        "complete": 3,
        "failed": 0,
        "unfinished": 0,
        "cached": 3,
    }
    planned = json.loads(invoke(*arguments, "--dry-run", "--json").stdout)
    assert {cell["state"] for cell in planned} == {"cached"}


def test_a_run_is_packed_and_unpacked(finished: Path, tmp_path: Path) -> None:
    """Two commands carry a run to another folder, where it is reported as it was."""
    packed = invoke("pack", finished / "out", "--to", tmp_path / "parts", "--part-mib", 1)
    assert packed.exit_code == 0, packed.stderr
    assert "3 ended cells" in packed.stdout
    unpacked = invoke("unpack", tmp_path / "parts", "--out", tmp_path / "out")
    assert unpacked.exit_code == 0, unpacked.stderr
    reports = [invoke("report", folder, "--format", "json").stdout for folder in (finished / "out", tmp_path / "out")]
    assert reports[0] == reports[1]
    assert json.loads(reports[0])["num_complete"] == 2


def test_drift_is_exit_3_with_the_field(finished: Path) -> None:
    """Another configuration in a used folder gives exit 3 and names the field."""
    result = invoke("ablate", "--config", finished / "config.toml", "--set", "rl.keep=2", "--out", finished / "out")
    assert result.exit_code == 3
    assert "config.rl.keep: 1 -> 2" in result.stderr


def test_report_in_every_format(finished: Path, tmp_path: Path) -> None:
    """The report prints on the terminal, as Markdown and as JSON, and writes HTML."""
    for form, needle in (("rich", "Research questions"), ("markdown", "## Research questions"), ("json", '"cells"')):
        result = invoke("report", finished / "out", "--format", form, "--html", tmp_path / "r.html")
        assert result.exit_code == 0, result.stderr
        assert needle in result.stdout
        assert f"{tmp_path / 'r.html'}: " in result.stderr
    assert "The four questions" in (tmp_path / "r.html").read_text()
    alone = invoke("report", finished / "out", "--html", tmp_path / "r.html")
    assert (alone.exit_code, alone.stdout) == (0, "")
    assert "one page that needs no network" in alone.stderr
    assert "no power" in invoke("report", finished / "out", "--power", "3x200").output  # of one seed
    assert invoke("report", finished / "out", "--power", "three").exit_code == 2
    assert invoke("report", finished / "out", "--power", "3x200", "--format", "json").exit_code == 2
    assert invoke("report", finished / "out", "--format", "pdf").exit_code == 2


def test_show_prints_a_cell_and_a_source(finished: Path) -> None:
    """One cell's candidates are listed with why each failed, and a source is found by its hash."""
    result = invoke("show", finished / "out", "msct", "--json")
    candidates = json.loads(result.stdout)["candidates"]
    assert {candidate["outcome"] for candidate in candidates} == {"no_kernel", "passed"}
    good = next(candidate for candidate in candidates if candidate["correct"])
    source = invoke("show", finished / "out", "msct", "--source", good["candidate"][:16]).stdout
    assert sha256(source.encode()).hexdigest() == good["candidate"]
    assert "no_kernel" in invoke("show", finished / "out", "msct").stdout
    missing = invoke("show", finished / "out", "mc")
    assert missing.exit_code == 2
    assert "msct:0" in missing.stderr


def test_interrupt_is_exit_130(monkeypatch: pytest.MonkeyPatch, finished: Path, tmp_path: Path) -> None:
    """Ctrl-C gives exit 130, and the commands that can go on say how, and no other."""

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tritonrl.harness.analysis.analysis.analyse", interrupt)
    monkeypatch.setattr("tritonrl.harness.study.runner.ablation.run_ablation", interrupt)
    result = invoke("report", finished / "out")
    assert (result.exit_code, result.stderr) == (130, "tritonrl: interrupted\n")
    result = invoke("ablate", "--preset", "quick", "--out", tmp_path / "out")
    assert result.exit_code == 130
    assert "run the same command again to resume" in result.stderr


def test_a_mistake_of_ours_is_exit_3_with_its_traceback_in_a_file(
    monkeypatch: pytest.MonkeyPatch, finished: Path, tmp_path: Path
) -> None:
    """An unforeseen exception is never exit 1, which speaks of candidates: one line names the traceback's file."""

    def fail(*_: object) -> None:
        raise ValueError("two\nlines")

    monkeypatch.setattr("tritonrl.harness.analysis.analysis.analyse", fail)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = invoke("report", finished / "out")
    assert result.exit_code == 3
    assert result.stderr.startswith("tritonrl: unexpected ValueError: two lines (traceback: ")
    assert len(result.stderr.splitlines()) == 1
    (log,) = tmp_path.glob("tritonrl-error-*.txt")
    assert str(log) in result.stderr
    assert "in fail" in log.read_text()


@pytest.mark.parametrize("form", ["rich", "markdown"])
def test_a_reader_that_leaves_is_no_verdict(finished: Path, form: str) -> None:
    """Where stdout is closed early, as by `head`, the command ends as SIGPIPE would end it, without a word."""
    command = [sys.executable, "-m", "tritonrl.cli", "report", str(finished / "out"), "--format", form]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait() == 141


def test_paths_that_cannot_be_used_are_exit_2(finished: Path, tmp_path: Path) -> None:
    """A path of the user's that cannot be written or read is one line that names it, with nothing on stdout."""
    (tmp_path / "file").write_text("")
    for arguments in (
        ("report", finished / "out", "--html", tmp_path / "missing" / "report.html"),
        ("report", finished / "out", "--html", tmp_path),
        ("tasks", "export", tmp_path / "file", "-n", 1),
    ):
        result = invoke(*arguments)
        assert result.exit_code == 2, result.stderr
        assert str(tmp_path) in result.stderr
        assert len(result.stderr.splitlines()) == 1
        assert result.stdout == ""


def test_tasks_are_listed_shown_validated_and_exported(tmp_path: Path) -> None:
    """A listed task can be shown, its teacher validated by the audit, and its suite exported."""
    listed = [json.loads(line) for line in invoke("tasks", "ls", "-n", "1", "--json").stdout.splitlines()]
    assert [task["level"] for task in listed] == [1, 2]
    assert "class Model" in invoke("tasks", "show", listed[0]["task"]).stdout
    assert "class ModelNew" in invoke("tasks", "show", listed[0]["task"], "--solution").stdout
    validated = invoke("tasks", "validate", TASK)
    assert validated.exit_code == 0, validated.stdout
    assert "1 of 1 tasks are sound" in validated.stdout
    assert "2 tasks" in invoke("tasks", "export", tmp_path / "corpus", "-n", "1").stdout
