"""Comparing runs: what gains are, over what their intervals are, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tritonrl.core.config import Config, with_overrides
from tritonrl.harness.errors import UsageError
from tritonrl.harness.evaluation.finished import EVALUATION
from tritonrl.harness.reinforcement.comparison import (
    BEGIN,
    END,
    Gain,
    find_falls,
    find_gains,
    read_runs,
    render_gains,
    with_excerpt,
    write_comparison,
)
from tritonrl.harness.study.store import Results, RunIdentity
from tritonrl.harness.tables import read_table, write_table

from ...command import invoke

FAMILIES = ("sum", "softmax")
NUM_TASKS, NUM_SAMPLES = 40, 4


def write_run(
    folder: Path,
    algorithm: str,
    seed: int,
    start: float,
    end: float,
    num_tasks: int = NUM_TASKS,
    speedups: tuple[float, float] | None = None,
) -> Path:
    """A run's folder with exams whose samples are right with these chances, and the metrics of three rounds.

    `speedups` are those of right samples at the start and at the end; without, nothing was timed.
    """
    config = with_overrides(Config(), {"rl.algorithm": algorithm})
    results = Results(root=folder)
    results.claim(RunIdentity(config=config, policy="none", backend="interpret"))
    results.plan([])
    generator = np.random.default_rng(seed)
    for name, chance, speedup in zip(("start", "end"), (start, end), speedups or (None, None), strict=True):
        rows = [
            {
                **dict.fromkeys(EVALUATION.columns),
                "cell": "exam",
                "seed": 0,
                "phase": "exam",
                "slot": slot,
                "task": f"task-{slot}",
                "level": 1 + slot % 2,
                "family": FAMILIES[slot % 2],
                "sample": sample,
                "compiled": True,
                "correct": bool(generator.random() < chance),
                "speedup": speedup,
            }
            for slot in range(num_tasks)
            for sample in range(NUM_SAMPLES)
        ]
        exam = folder / "exams" / f"seed{seed}-{name}-0.8"
        exam.mkdir(parents=True)
        write_table(EVALUATION, EVALUATION.frame(rows), exam / "evaluation.parquet")
        (exam / "suite.json").write_text(json.dumps({"suite": "open:heldout", "skipped": []}))
    lines = ({"phase": "round", "step": number, "correct": start + number / 10} for number in (1, 2, 3))
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def test_speed_is_a_ratio_and_a_share(tmp_path: Path) -> None:
    """Right samples that become twice as fast show in both figures of speed, and in no figure of correctness."""
    folders = [
        write_run(tmp_path / f"rloo-{seed}", "rloo", seed, 0.8, 0.8, speedups=(0.6 + seed / 100, 1.2 + seed / 50))
        for seed in range(3)
    ]
    gains = find_gains(read_runs(folders))
    speedup, fast = (pick(gains, "rloo", "start", figure=figure) for figure in ("speedup", "fast_1"))
    assert (speedup.before, speedup.after) == (pytest.approx(0.61, abs=1e-3), pytest.approx(1.22, abs=1e-3))
    assert speedup.points == "x2.00 [2.00, 2.00]"
    assert fast.before == 0.0
    assert fast.after == pick(gains, "rloo", "start").after
    assert not find_falls(gains)
    assert "ratios" in render_gains(gains)[-1]
    back = find_gains(read_runs([write_run(tmp_path / "slow", "rloo", 0, 0.8, 0.8, speedups=(1.2, 0.6))]))
    assert {"level 1", "level 2"} <= {gain.group for gain in find_falls(back) if gain.figure == "speedup"}


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Three seeds of a learner that gains, and of one that does not."""
    folders = [write_run(tmp_path / f"rloo-{seed}", "rloo", seed, 0.3, 0.7) for seed in range(3)]
    return folders + [write_run(tmp_path / f"bon-{seed}", "best-of-n", seed, 0.3, 0.3) for seed in range(3)]


def pick(gains: tuple[Gain, ...], algorithm: str, over: str, group: str = "all", figure: str = "pass@1") -> Gain:
    (found,) = (
        gain
        for gain in gains
        if (gain.algorithm, gain.over, gain.group, gain.figure) == (algorithm, over, group, figure)
    )
    return found


def test_gains_are_differences_of_shares_with_intervals_over_seeds_and_tasks(runs: list[Path]) -> None:
    """A learner that gains 40 points is seen to, one that gains nothing is not, and the one is above the other."""
    comparison = read_runs(runs)
    gains = find_gains(comparison)
    gained = pick(gains, "rloo", "start")
    assert (gained.num_seeds, gained.num_tasks) == (3, NUM_TASKS)
    own = comparison.exams.filter(comparison.exams["algorithm"] == "rloo")
    for is_start, share in ((True, gained.before), (False, gained.after)):
        rows = own.filter(own["is_start"] == is_start)
        assert share == pytest.approx(rows["num_correct"].sum() / rows["num_samples"].sum())
    assert 0.0 < gained.low < gained.after - gained.before
    idle = pick(gains, "best-of-n", "start")
    assert idle.low < 0.0 < idle.high
    against = pick(gains, "rloo", "best-of-n")
    assert against.before == pytest.approx(idle.after)
    assert against.after == gained.after
    assert pick(gains, "rloo", "start", figure="pass@4").after >= gained.after
    assert {gain.group for gain in gains} == {"all", "level 1", "level 2", *FAMILIES}
    assert not find_falls(gains)
    assert "3 seeds" in render_gains(gains)[-1]
    assert not {gain.figure for gain in gains} & {"speedup", "fast_1"}


def test_one_seed_has_an_interval_over_tasks(tmp_path: Path) -> None:
    """Tasks are what was repeated then, and the lines say so; what falls is told."""
    gains = find_gains(read_runs([write_run(tmp_path / "run", "rloo", 0, 0.9, 0.1)]))
    assert pick(gains, "rloo", "start").num_seeds == 1
    assert render_gains(gains)[-1].endswith("over tasks alone")
    assert {gain.group for gain in find_falls(gains)} == {"level 1", "level 2", *FAMILIES}


def without_an_end(folder: Path) -> Path:
    """A run that was cut off after its start was examined."""
    write_run(folder, "rloo", 5, 0.3, 0.3)
    shutil.rmtree(folder / "exams" / "seed5-end-0.8")
    return folder


def of_other_tasks(folder: Path) -> Path:
    """A run whose exams have as many tasks, and others."""
    write_run(folder, "rloo", 5, 0.3, 0.3)
    for path in (folder / "exams").glob("*/evaluation.parquet"):
        frame = read_table(EVALUATION, path)
        write_table(EVALUATION, frame.with_columns(task="other " + frame["task"]), path)
    return folder


def without_exams(folder: Path) -> Path:
    config = with_overrides(Config(), {"rl.algorithm": "rloo"})
    Results(root=folder).claim(RunIdentity(config=config, policy="none", backend="interpret"))
    return folder


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda folder: write_run(folder, "rloo", 0, 0.3, 0.3), "rloo with seed 0, as"),
        (lambda folder: write_run(folder, "rloo", 5, 0.3, 0.3, num_tasks=10), "asked other tasks"),
        (of_other_tasks, "asked other tasks"),
        (without_exams, "no exams"),
        (without_an_end, "no exams"),
    ],
)
def test_what_cannot_be_compared_is_refused(tmp_path: Path, other: Callable[[Path], Path], message: str) -> None:
    """The same seed twice, other tasks, and a run without exams."""
    first = write_run(tmp_path / "first", "rloo", 0, 0.3, 0.7)
    with pytest.raises(UsageError, match=message):
        find_gains(read_runs([first, other(tmp_path / "second")]))


def test_published_tables_say_the_same(runs: list[Path], tmp_path: Path) -> None:
    """Gains and figures are computed from the two tables alone, and a document's part again without a change."""
    comparison = read_runs(runs)
    write_comparison(comparison, tmp_path / "published")
    again = read_runs([tmp_path / "published"])
    assert find_gains(again) == find_gains(comparison)
    assert "rloo" in (tmp_path / "published" / "curves.svg").read_text()
    text = f"before\n{BEGIN}\n{END}\nafter"
    written = with_excerpt(text, again, "published")
    assert "| rloo over start | 0.8 | pass@1 |" in written
    assert with_excerpt(written, comparison, "published") == written
    with pytest.raises(UsageError, match="no place"):
        with_excerpt("nothing", again, "published")


def test_the_command_prints_gains_and_writes_what_is_asked(runs: list[Path], tmp_path: Path) -> None:
    """Lines for a person or JSON; a folder that is missing is a usage error."""
    document = tmp_path / "page.md"
    document.write_text(f"{BEGIN}\n{END}\n")
    paths = [str(run) for run in runs]
    done = invoke("compare", *paths, "--publish", str(tmp_path / "out"), "--excerpt", str(document), "--json")
    assert done.exit_code == 0, done.output
    assert {row["algorithm"] for row in json.loads(done.stdout)} == {"rloo", "best-of-n"}
    assert "| rloo over best-of-n |" in document.read_text()
    assert invoke("compare", str(tmp_path / "nowhere")).exit_code == 2
