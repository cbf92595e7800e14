"""A run of which only some seeds are whole: it is said plainly which, and effects rest on the whole ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl
import pytest
from attrs import evolve
from tritonrl.core.recipe.extensions import ALL_CELLS
from tritonrl.core.statistics.factorial import TERMS
from tritonrl.harness.analysis.analysis import Analysis, analyse
from tritonrl.harness.report.sections import as_markdown
from tritonrl.harness.study.store import Results
from tritonrl.harness.tables import TABLES, write_table

from ..hand_made import cells, judged, spent, table

GRID = tuple(map(str, ALL_CELLS))
OTHERS = ("c+binary", "t+cv5")


def analyse_cells(root: Path, by_seed: Mapping[int, Sequence[str]]) -> Analysis:
    """The analysis of a folder with these cells, all complete; those with M have one sample more right."""
    frames = {
        "cells": pl.concat([cells(*names, seeds=(seed,)) for seed, names in by_seed.items()]),
        "evaluation": table(
            "evaluation",
            [
                row
                for seed, names in by_seed.items()
                for name in names
                for row in judged(name, {"a": (1, seed == 0), "b": ("m" in name.partition("+")[0], 0)}, seed)
            ],
        ),
        "rounds": table(
            "rounds",
            [
                row
                for seed, names in by_seed.items()
                for name in names
                if name != "sft"
                for row in spent(name, [1], seed)
            ],
        ),
    }
    for name, kind in TABLES.items():
        write_table(kind, frames.get(name, kind.frame([])), root / f"{name}.parquet")
    return analyse(Results(root=root))


def said_of_seeds(found: Analysis) -> list[str]:
    """The remarks about seeds that are not whole."""
    return [remark for remark in found.remarks if remark.startswith("Seed ")]


def test_a_seed_that_lacks_cells_is_left_out(tmp_path: Path) -> None:
    """With two whole seeds and a third that was cut off, everything is over two, and the report says why."""
    whole = ("sft", *GRID, *OTHERS)
    found = analyse_cells(tmp_path, {0: whole, 1: whole, 2: ("sft", *GRID[:5])})
    assert said_of_seeds(found) == [
        "Seed 2 is not whole: 5 of 18 cells are complete; all that is said here, but of the timing, leaves it out."
    ]
    primary = found.effects["correct"]
    assert primary is not None
    assert primary.num_seeds == 2
    assert primary.effect("m").estimate == 0.25
    assert "Seed 2 is not whole" in as_markdown(found)
    two = analyse_cells(tmp_path / "two", {0: whole, 1: whole})
    without = {"remarks": (), "num_complete": 0, "num_complete_in_grid": 0}
    assert evolve(found, **without) == evolve(two, **without)
    assert (found.num_complete, two.num_complete) == (41, 36)
    assert (found.num_complete_in_grid, two.num_complete_in_grid) == (37, 32)


def test_the_means_of_pairs_give_their_interaction(tmp_path: Path) -> None:
    """An interaction plot's four points are those of its effect, whatever seeds are not whole."""
    whole = ("sft", *GRID, *OTHERS)
    found = analyse_cells(tmp_path, {0: whole, 1: whole, 2: ("sft", *GRID[:5])})
    primary = found.effects["correct"]
    assert primary is not None
    for pair in [term for term in TERMS if len(term) == 2]:
        four = {(one.first_on, one.second_on): one.rate.value for one in found.pairs if one.first + one.second == pair}
        means = [four[place] or 0.0 for place in ((True, True), (False, False), (True, False), (False, True))]
        assert primary.effect(pair).estimate == pytest.approx((means[0] + means[1] - means[2] - means[3]) / 2)


def test_where_no_seed_is_whole_all_are_shown(tmp_path: Path) -> None:
    """Nothing is thrown away then; each cell says with which seeds it was run, and effects have no interval."""
    found = analyse_cells(tmp_path, {0: ("sft", *GRID[:9]), 1: ("sft", *GRID[8:])})
    assert {fact.cell: len(fact.correct_by_seed) for fact in found.cells} == dict.fromkeys(GRID, 1) | {GRID[8]: 2}
    primary = found.effects["correct"]
    assert primary is not None
    assert primary.effect("m").low is None


def test_a_start_alone_is_no_training_run(tmp_path: Path) -> None:
    """Seeds of which only the start has run are named, and are not counted as seeds."""
    found = analyse_cells(tmp_path, {0: ("sft", *GRID), 1: ("sft",), 2: ("sft",)})
    assert found.num_seeds == 1
    assert [remark[:46] for remark in said_of_seeds(found)] == [
        "Seed 1 is not whole: 0 of 16 cells are complet",
        "Seed 2 is not whole: 0 of 16 cells are complet",
    ]
    primary = found.effects["correct"]
    assert primary is not None
    assert primary.over == "tasks"


def test_a_seed_that_lacks_a_control_keeps_its_effects(tmp_path: Path) -> None:
    """Where only a cell outside the grid is missing, effects are over that seed too, and a whole run says nothing."""
    found = analyse_cells(tmp_path, {0: ("sft", *GRID, *OTHERS), 1: ("sft", *GRID, "c+binary")})
    assert said_of_seeds(found) == [
        "Seed 1 is not whole: 17 of 18 cells are complete; what is said of one cell is over the seeds that it has."
    ]
    primary = found.effects["correct"]
    assert primary is not None
    assert primary.num_seeds == 2
    again = analyse_cells(tmp_path, {0: ("sft", *GRID, *OTHERS), 1: ("sft", *GRID, *OTHERS)})
    assert said_of_seeds(again) == []
