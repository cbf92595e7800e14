"""KernelBook's rows as pairs: what becomes of a sound one, and why another is none."""

from __future__ import annotations

import ast
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.text.extraction import extract
from tritonrl.core.text.parsing import class_names, rename_class
from tritonrl.harness.datasets.pairs import Flaw, SourcePair, open_pairs, read_row
from tritonrl.harness.errors import UsageError
from tritonrl.harness.sandbox.sandbox import Sandbox

from .made_up_pairs import PYTHON, TRITON, make_row, write_parquet


def test_a_sound_row_is_a_pair_under_our_names() -> None:
    """The prompt shows Model, the answer defines ModelNew, and nothing else of either program has changed."""
    pair = read_row(make_row())
    assert isinstance(pair, SourcePair)
    assert pair.prompt.startswith("Write ModelNew with Triton kernels.")
    assert class_names(pair.reference) == {"Model"}
    assert pair.reference in pair.prompt
    assert pair.reference.replace("Model(nn", "ShiftedGate(nn").replace("super(Model", "super(ShiftedGate") == PYTHON
    solution = extract(pair.answer)
    assert solution is not None
    assert solution.strip() == TRITON.replace("ShiftedGateNew", "ModelNew").strip()
    assert "extern_kernels" in solution


@pytest.mark.parametrize(
    ("changes", "flaw"),
    [
        ({"entry_point": None}, Flaw.NO_TEXT),
        ({"python_code": " \n"}, Flaw.NO_TEXT),
        ({"triton_code": 3}, Flaw.NO_TEXT),
        ({"triton_code": TRITON.encode()}, Flaw.NO_TEXT),
        ({"python_code": f"{PYTHON}\nx = {'+'.join('1' * 50_000)}\n"}, Flaw.REFERENCE_SYNTAX),
        ({"triton_code": f"{TRITON}\nx = {'-' * 50_000}1\n"}, Flaw.SOLUTION_SYNTAX),
        ({"python_code": "class ShiftedGate(:"}, Flaw.REFERENCE_SYNTAX),
        ({"python_code": "x = '\0'"}, Flaw.REFERENCE_SYNTAX),
        ({"triton_code": "```\n" + TRITON}, Flaw.SOLUTION_SYNTAX),
        ({"entry_point": "Gate"}, Flaw.NO_REFERENCE),
        ({"triton_code": TRITON.replace("GateNew", "Gate")}, Flaw.NO_SOLUTION),
        ({"python_code": f"{PYTHON}\n\nclass Model: pass\n"}, Flaw.NAME_TAKEN),
        ({"triton_code": f"{TRITON}\n\nModelNew = 3\n"}, Flaw.NAME_TAKEN),
        ({"triton_code": TRITON.replace("@triton.jit", "")}, Flaw.NO_KERNEL),
    ],
)
def test_a_bad_row_has_a_reason(changes: dict[str, Any], flaw: Flaw) -> None:
    """Whatever is wrong with a row is said, and nothing is raised."""
    assert read_row(make_row(**changes)) is flaw


@given(st.dictionaries(st.sampled_from(("entry_point", "python_code", "triton_code", "prompt")), st.text() | st.none()))
def test_any_row_is_a_pair_or_a_flaw(row: dict[str, Any]) -> None:
    """No content of the columns ends in an exception."""
    assert isinstance(read_row(row), SourcePair | Flaw)


def test_renaming_leaves_attributes_and_texts() -> None:
    """Only names that refer to the class are renamed."""
    source = "class A(nn.A):\n    'A'\n    other = nn.A  # A\n\ndef f():\n    return A(A.A)\n"
    renamed = rename_class(source, "A", "Model")
    assert renamed == "class Model(nn.A):\n    'A'\n    other = nn.A  # A\n\ndef f():\n    return Model(Model.A)\n"
    assert rename_class(renamed, "Model", "A") == source
    assert rename_class("x = 1\n\x0c\nclass A: pass\nA()\n", "A", "B") == "x = 1\n\x0c\nclass B: pass\nB()\n"
    with pytest.raises(ValueError, match="f is another thing's name"):
        rename_class(source, "A", "f")


@given(st.text(alphabet="abé_\n (){}='\"#.\t:1\\", max_size=60))
def test_renaming_any_program_keeps_it_one(text: str) -> None:
    """Renaming a class that a program defines gives a program in which nothing has the old name."""
    source = f"class ab:\n    pass\n{text}"
    try:
        ast.parse(source)
        renamed = rename_class(source, "ab", "Model")
    except (SyntaxError, ValueError):
        return
    assert "Model" in class_names(renamed)
    assert not any(isinstance(node, ast.Name) and node.id == "ab" for node in ast.walk(ast.parse(renamed)))


def test_a_file_without_the_columns_is_refused(tmp_path: Path) -> None:
    """A Parquet file that is another data set's is one line that names what it lacks; so is a file that is none."""
    path = write_parquet(tmp_path / "other.parquet", [{"entry_point": "A", "code": "x"}])
    with pytest.raises(UsageError, match=r"--data kernelbook:.*has no column python_code, triton_code"):
        open_pairs(f"kernelbook:{path}")
    with pytest.raises(UsageError, match="no such file or folder"):
        open_pairs(f"kernelbook:{tmp_path / 'missing.parquet'}")
    with pytest.raises(UsageError, match=r"expected kernelbook:PARQUET, FILE.jsonl or FILE.parquet"):
        open_pairs("pairs.csv")


def test_a_column_of_another_type_is_no_text(tmp_path: Path) -> None:
    """Bytes or dates where texts belong are flaws of their rows, and the file has its identity all the same."""
    path = write_parquet(tmp_path / "bytes.parquet", [make_row(triton_code=TRITON.encode()), make_row(triton_code=b"")])
    found = open_pairs(f"kernelbook:{path}")
    assert len(found.fingerprint) == 64
    assert [found.read(row) for row in found.rows] == [Flaw.NO_TEXT] * 2
    write_parquet(path, [make_row(entry_point=date(2026, 1, 1))])
    found = open_pairs(f"kernelbook:{path}")
    assert [found.read(row) for row in found.rows] == [Flaw.NO_TEXT]


def test_a_folder_of_files_is_read_whole_and_known_by_content(tmp_path: Path) -> None:
    """All Parquet files below a folder are one data set, which has one identity wherever it lies."""
    rows = [make_row(), make_row(entry_point="B")]
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        for number, row in enumerate(rows):
            write_parquet(tmp_path / folder / f"part-{number}.parquet", [row])
    first, second = (open_pairs(f"kernelbook:{tmp_path / folder}") for folder in ("one", "two"))
    assert len(first.rows) == 2
    assert first.fingerprint == second.fingerprint
    write_parquet(tmp_path / "three.parquet", rows[:1])
    assert open_pairs(f"kernelbook:{tmp_path / 'three.parquet'}").fingerprint != first.fingerprint


def test_programs_are_compared_in_the_sandbox(sandbox: Sandbox) -> None:
    """A row's program is traced with its `[args, kwargs]`; one that ends its process or runs on is only not traced."""
    pair = read_row(make_row())
    assert isinstance(pair, SourcePair)
    found = sandbox.trace(pair.reference)
    assert (len(found.graph), found.failure) == (16, None)
    # other sizes and numbers are the same computation, another operator is another one
    again = sandbox.trace(pair.reference.replace("8", "24").replace("2.0", "5.0"))
    assert again.graph == found.graph
    assert sandbox.trace(pair.reference.replace("torch.sigmoid", "torch.tanh")).graph not in ("", found.graph)
    ended = sandbox.trace("import os\nos._exit(3)")
    assert ended.graph == ""
    assert ended.failure is not None
    assert "ended with status 3" in ended.failure.message
    assert sandbox.trace("import nothing_that_exists").graph == ""
