"""KernelBench's form: folders and Parquet are one suite, bad rows are counted, and a hub needs a network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tritonrl.harness.datasets.kernelbench import read_kernelbench
from tritonrl.harness.datasets.place import locate, read_parquet
from tritonrl.harness.errors import UsageError
from tritonrl.harness.tasks.suites import identify_suite, load_suite

from .made_up import HEAD, PROBLEMS, SMALL_PROBLEM, write_folder

NEARBY = {"level1/7_Small.py": SMALL_PROBLEM, "level2/3_Small.py": SMALL_PROBLEM.replace("200", "100")}


def row(name: str, code: str | None) -> dict[str, Any]:
    """A row of the Parquet form for a file of the folder form."""
    folder, file = name.split("/")
    number, _, _ = file.partition("_")
    return {
        "code": code,
        "level": int(folder.removeprefix("level")),
        "name": file.removesuffix(".py"),
        "problem_id": int(number) if number.isdecimal() else None,
    }


def write_parquet(path: Path, rows: list[dict[str, Any]]) -> Path:
    """The rows as a Parquet file, with a column more than is read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pl.DataFrame(rows, infer_schema_length=None).with_columns(other=pl.lit("x")).write_parquet(path)
    return path


def test_folder_and_parquet_are_one_suite(tmp_path: Path) -> None:
    """The same problems and the same skipped rows come from files, from one Parquet file, and from a folder of them."""
    folder = write_folder(tmp_path / "files")
    rows = [row(name, code) for name, code in PROBLEMS.items()]
    one = write_parquet(tmp_path / "one.parquet", rows[::-1])
    for level in (1, 2, 3, 4):
        write_parquet(
            tmp_path / f"many/data/level_{level}.parquet", [entry for entry in rows if entry["level"] == level]
        )
    problems, skipped = read_kernelbench(str(folder))
    assert [(p.level, p.number, p.name) for p in problems] == [
        *[(1, 1, "Shifted_tanh"), (1, 2, "Row_range"), (2, 1, "Linear_square"), (2, 2, "Grouped_convolution")],
        *[(3, 1, "Fixed_width"), (3, 2, "Broken")],
    ]
    identity = identify_suite(f"kernelbench:{folder}")
    for place in (one, tmp_path / "many"):
        found, rejected = read_kernelbench(str(place))
        assert found == problems
        assert {(s.name, s.reason) for s in rejected} == {(s.name, s.reason) for s in skipped}
        assert identify_suite(f"kernelbench:{place}") == identity
    assert {s.name: s.reason for s in skipped} == {
        "Nameless": "no number",
        "1_Elsewhere": "level 4 is none of 1, 2, 3",
    }


def test_bad_rows_are_counted_with_reasons(tmp_path: Path) -> None:
    """Each row that is no problem is skipped for a reason of its own, and the others are kept."""
    good = row("level1/1_Small.py", SMALL_PROBLEM)
    bad = {
        "no code": {**good, "code": None, "problem_id": 2},
        "level None is none of 1, 2, 3": {**good, "level": None, "problem_id": 3},
        "no number": {**good, "problem_id": None},
        "a second problem 1 of level 1": {**good, "code": HEAD},
    }
    path = write_parquet(tmp_path / "rows.parquet", [good, *bad.values(), {**good, "code": " \n", "problem_id": 5}])
    problems, skipped = read_kernelbench(str(path))
    assert [problem.code for problem in problems] == [SMALL_PROBLEM]
    assert [entry.reason for entry in skipped] == [*bad, "no code"]


def test_numbers_that_are_no_integers_are_skipped(tmp_path: Path) -> None:
    """A level of 1.0 would give its task another id than a level of 1."""
    good = row("level1/1_Small.py", SMALL_PROBLEM)
    path = write_parquet(tmp_path / "rows.parquet", [{**good, "level": 1.0}])
    with pytest.raises(UsageError, match=r"no problem there \(1 rows skipped: 1 for level 1\.0 is none of 1, 2, 3\)"):
        read_kernelbench(str(path))


def test_unreadable_file_is_skipped(tmp_path: Path) -> None:
    """A file that is no text is no problem; a byte order mark is no part of the text."""
    folder = write_folder(tmp_path, NEARBY)
    (folder / "level1/8_Latin.py").write_bytes(b"x = '\xff'\n")
    (folder / "level1/7_Small.py").write_bytes(b"\xef\xbb\xbf" + SMALL_PROBLEM.encode())
    problems, skipped = read_kernelbench(str(folder))
    assert [problem.code for problem in problems] == list(NEARBY.values())
    assert [(entry.name, entry.reason) for entry in skipped] == [("8_Latin", "code that is no text")]


def test_places_that_hold_no_suite_are_refused_by_name(tmp_path: Path) -> None:
    """No file, no Parquet, no columns and no rows: each is one line that names the place."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.parquet").write_text("no Parquet\nat all")
    pl.DataFrame({"code": ["x"], "level": [1]}).write_parquet(tmp_path / "narrow.parquet")
    write_parquet(tmp_path / "nothing.parquet", [row("level9/1_Far.py", HEAD)])
    for place, words in {
        "absent.parquet": "no such file or folder",
        "empty": "neither level1/\\*.py, level2/\\*.py, ... nor a Parquet file",
        "text.parquet": "cannot be read as Parquet",
        "narrow.parquet": "no column name, problem_id",
        "nothing.parquet": "no problem there",
    }.items():
        with pytest.raises(UsageError, match=words) as caught:
            read_kernelbench(str(tmp_path / place))
        assert place in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="a name on the Hugging Face hub: it is none"):
        locate("../no..thing", "--suite")
    for place in ("", "a/b/c", "~nobody-of-this-name/kernels", "x" * 5000):
        with pytest.raises(UsageError, match="no such file or folder"):
            locate(place, "--suite")


def test_parquet_rows_have_the_wanted_columns_alone(tmp_path: Path) -> None:
    """Columns that nobody asked for are not read."""
    path = write_parquet(tmp_path / "rows.parquet", [row("level1/1_Small.py", SMALL_PROBLEM)])
    assert read_parquet(path, ("level", "name"), "--suite") == [{"level": 1, "name": "1_Small"}]


@pytest.mark.parametrize("variables", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}])
def test_hub_name_without_network_is_one_line(variables: dict[str, str], tmp_path: Path) -> None:
    """Offline by choice or by accident: one line says that the hub cannot be reached, and nothing else is printed."""
    script = (
        "from tritonrl.harness.datasets.place import locate\n"
        "from tritonrl.harness.errors import UsageError\n"
        "try: locate('made-up/problems', '--suite kernelbench:made-up/problems')\n"
        "except UsageError as error: print(error)\n"
    )
    environment = {**os.environ, "HF_HOME": str(tmp_path), **variables}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1
    assert "--suite kernelbench:made-up/problems: no file or folder" in done.stdout
    assert "the hub cannot be reached from here" in done.stdout


def test_suite_has_tasks_with_small_sizes_and_models_see_what_was_published(tmp_path: Path) -> None:
    """Sizes are named in the task that is judged; what is shown is the published text; places count what is skipped."""
    problems = {name: PROBLEMS[name] for name in ("level1/1_Shifted_tanh.py", "level3/2_Broken.py")}
    done: list[int] = []
    suite = load_suite(f"kernelbench:{write_folder(tmp_path, {**problems, **NEARBY})}", on_done=done.append)
    assert suite.is_foreign
    assert [(entry.index, entry.task.level) for entry in suite.tasks] == [(0, 1), (1, 1), (2, 2)]
    assert done == [1, 2, 3, 4]
    assert [entry.name for entry in suite.skipped] == ["Broken"]
    assert "syntax" in suite.skipped[0].reason
    tanh, small, _ = suite.tasks
    assert dict(tanh.task.small) == {"batch_size": 48, "dim": 48}
    assert tanh.shown.source == problems["level1/1_Shifted_tanh.py"] != tanh.task.source
    assert (small.published, small.shown) == (None, small.task)


def test_levels_numbers_and_places_choose(tmp_path: Path) -> None:
    """Levels, a count a level, and places in the whole suite each choose, and the identity follows the choice."""
    suite = f"kernelbench:{write_folder(tmp_path, {**NEARBY, 'level2/4_More.py': SMALL_PROBLEM})}"

    def places(**choice: Any) -> list[int]:
        return [entry.index for entry in load_suite(suite, **choice).tasks]

    assert places(levels=(2,)) == [1, 2]
    assert places(num=1) == [0, 1]
    assert places(picks=(2, 99)) == [2]
    assert places(levels=(1,), picks=(2,)) == []
    assert places(levels=(1, 1)) == [0]
    identities = [identify_suite(suite, **choice) for choice in ({}, {"levels": (2,)}, {"num": 1}, {"picks": (2,)})]
    assert len(set(identities)) == 4
    assert identify_suite(suite, levels=(1, 2, 3)) == identities[0]
    with pytest.raises(UsageError, match="no level 4 here; there are 1, 2, 3"):
        load_suite(suite, levels=(4,))


@pytest.mark.parametrize("name", ["core13", "core13:test", "full:test", "kernelbench", "nothing:here", ""])
def test_no_suite_is_refused_by_name(name: str) -> None:
    """A name that is no suite's is refused with those that there are, when it is identified as when it is loaded."""
    for ask in (load_suite, identify_suite):
        with pytest.raises(UsageError, match=r"no such suite( \(did you mean .*\?\))?; there are core13:train"):
            ask(name)


@pytest.mark.parametrize("name", ["core13:heldout", "full:heldout"])
def test_levels_that_a_suite_has_not_are_refused(name: str) -> None:
    """Our suites say which levels they have."""
    with pytest.raises(UsageError, match="level 7"):
        load_suite(name, levels=(7,), num=1)


def test_our_suites_are_drawn_by_seed() -> None:
    """A corpus has solutions, no criterion of its own, and other tasks by another seed."""
    suite = load_suite("core13:heldout", levels=(1,), num=2, seed=1)
    assert not suite.is_foreign
    assert all(entry.solution and entry.shown is entry.task for entry in suite.tasks)
    identities = {identify_suite("core13:heldout", levels=(1,), num=2, seed=seed) for seed in (1, 2)}
    assert len(identities) == 2
    assert [entry.index for entry in load_suite("core13:heldout", num=2, seed=1, picks=(1, 3)).tasks] == [1, 3]


RETURNED = "[torch.rand(batch_size, dim)]"
MISBEHAVING = {
    "Exits": (SMALL_PROBLEM + "\nexit(5)\n", "SystemExit: 5"),
    "Deep": (SMALL_PROBLEM + f"\nother = {'+'.join(['1'] * 3000)}\n", "recursion"),
    "Sets_dtype": (
        SMALL_PROBLEM + "\ntorch.set_default_dtype(torch.float64)\n",
        "default dtype, which other tasks share",
    ),
    "List": (SMALL_PROBLEM.replace(RETURNED, f"[{RETURNED}]"), "no tensor as an argument of its own, but list"),
    "Mixed": (SMALL_PROBLEM.replace(RETURNED, f"[torch.rand(batch_size, dim), {RETURNED}]"), "returns a list, which"),
    "Named": (
        SMALL_PROBLEM.replace(RETURNED, "{'x': torch.rand(batch_size, dim)}"),
        "a list of arguments, not one dict",
    ),
    "One": (SMALL_PROBLEM.replace(RETURNED, RETURNED[1:-1]), "a list of arguments, not one tensor"),
    "Raises": (SMALL_PROBLEM.replace("return []", "assert dim < 9"), "get_init_inputs() failed: AssertionError"),
    "Object": (SMALL_PROBLEM.replace("return []", "return [object()]"), "must return plain numbers or text"),
    "Hidden": (
        SMALL_PROBLEM.replace("dim = 200", "dim = (lambda: 1 << 40)()").replace(
            "batch_size = 16", "batch_size = (lambda: 2)()"
        ),
        "none of its sizes has a name, and its own are too large",
    ),
}
SOUND = {
    "Data_class": "from __future__ import annotations\nfrom dataclasses import dataclass\n\n"
    + SMALL_PROBLEM
    + "\n\n@dataclass\nclass Sizes:\n    width: int = 3\n",
    "Inherits_no_future": "from dataclasses import dataclass\n\n"
    + SMALL_PROBLEM
    + "\n\n@dataclass\nclass Sizes:\n    width: int = 3\n\n\nassert Sizes.__annotations__ == {'width': int}\n",
    "Scripted": SMALL_PROBLEM + "\n\n@torch.jit.script\ndef shift(x):\n    return x + 1\n",
    "Prints": SMALL_PROBLEM.replace("return torch.tanh", "print('here')\n        return torch.tanh")
    + "\nprint('here')\n",
}


def test_programs_that_misbehave_are_skipped_and_leave_the_others_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever a program does or returns is a reason of its own, and what is sound beside it stays so and silent."""
    sources = [*((name, code) for name, (code, _) in MISBEHAVING.items()), *SOUND.items()]
    folder = write_folder(tmp_path, {f"level1/{number}_{name}.py": code for number, (name, code) in enumerate(sources)})
    suite = load_suite(f"kernelbench:{folder}")
    told = {entry.name: entry.reason for entry in suite.skipped}
    assert set(told) == set(MISBEHAVING)
    assert [name for name, (_, words) in MISBEHAVING.items() if words not in told[name]] == []
    assert [entry.task.description for entry in suite.tasks] == [name.replace("_", " ") for name in SOUND]
    assert capsys.readouterr().out == ""
