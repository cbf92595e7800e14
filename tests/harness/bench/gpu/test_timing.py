"""What `tritonrl bench timing` makes of measurements, and which kernels it takes."""

from __future__ import annotations

import json

import pytest
from tritonrl.core.serialisation import to_plain
from tritonrl.core.text.named_sizes import read_constants
from tritonrl.harness.bench.gpu.timing import PROTOCOLS, Trials, condense, draw, grow, least_tau, render, summarise
from tritonrl.harness.tasks.suites import corpus_examples


def measurement(us: float, control_us: float, single_us: float = 50.0, do_bench_us: float | None = None) -> Trials:
    """Trials that each protocol finds alike."""
    do_bench = [us if do_bench_us is None else do_bench_us] * 5
    return {
        "calibrated": [us] * 5,
        "control": [control_us] * 5,
        "single": [single_us],
        "events": [us] * 5,
        "do_bench": do_bench,
    }


def test_a_steady_clock_meets_every_target() -> None:
    """Equal measurements have no variation, A/A speedups of 1 and rankings that agree."""
    kernels = [condense(f"k{us}", [measurement(us, us)] * 4, 0.1) for us in (2.0, 7.0, 30.0, 90.0, 900.0)]
    figures = summarise("gpu", 0, 2, kernels, [])
    assert [band.num_kernels for band in figures.bands] == [1, 1, 1, 1, 1]
    assert len(figures.targets) == 5
    assert all(target.is_met for target in figures.targets)
    assert figures.tau["calibrated"] == pytest.approx(1.0)
    text = "\n".join(render(figures))
    assert "MISSED" not in text
    assert all(name in text for name in PROTOCOLS)
    assert json.loads(json.dumps(to_plain(figures), allow_nan=False))["device"] == "gpu"


def test_each_missed_target_is_named() -> None:
    """Variation, a difference to do_bench, an A/A speedup and a ranking that changes are found one by one."""
    names = {
        "CV from 5 us": [measurement(7.0, 7.0), measurement(7.3, 7.3), measurement(7.0, 7.0)],
        "CV from 50 us": [measurement(90.0, 90.0), measurement(90.6, 90.6)],
        "do_bench": [measurement(30.0, 30.0, do_bench_us=33.0)] * 2,
        "A/A": [measurement(7.0, 7.2)] * 2,
    }
    for name, taken in names.items():
        figures = summarise("gpu", 0, 1, [condense("kernel", taken, 0.1)], ["other: crashed"])
        missed = {target.name for target in figures.targets if not target.is_met and "Kendall" not in target.name}
        assert len(missed) == 1
        assert name in missed.pop()
        assert "not measured: other: crashed" in render(figures)


def test_rankings_of_successive_visits_are_compared() -> None:
    """The first measurement of each visit counts, and the worst pair of visits."""
    assert least_tau([[1.0, 9.0, 1.0, 9.0], [2.0, 0.0, 2.0, 0.0]], num_repeats=2) == 1.0
    assert least_tau([[1.0, 1.0, 3.0], [2.0, 2.0, 2.0]], num_repeats=1) == -1.0
    assert least_tau([[1.0], [2.0]], num_repeats=1) == 0.0


def test_kernels_are_teachers_at_their_own_sizes_and_at_larger_ones() -> None:
    """As many as were asked for, the same for the same seed, some of them grown."""
    kernels = draw(8, seed=3)
    assert len(kernels) == 8
    assert kernels == draw(8, seed=3)
    grown = [example for example in kernels if read_constants(example.task.source)[example.task.small[0][0]]]
    originals = {example.task.task_id: example for example in corpus_examples("core13:train", 3, 4)}
    assert any(example != originals[example.task.task_id] for example in grown)


@pytest.mark.parametrize("factor", [1, 4, 2**20])
def test_growth_stops_where_a_task_gets_too_large(factor: int) -> None:
    """The first size alone is multiplied, and by less where the task would take too much memory."""
    example = next(corpus_examples("core13:train", 0, 1))
    name = example.task.small[0][0]
    before, after = (read_constants(one.task.source) for one in (example, grow(example, factor)))
    ratio = after[name] / before[name]
    assert ratio == factor if factor < 8 else 8 <= ratio < factor
    assert {**after, name: 0} == {**before, name: 0}
