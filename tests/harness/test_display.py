"""What a person reads while something runs."""

from __future__ import annotations

import io

from tritonrl.harness.display import CellState, Plain


def test_a_phase_has_its_cell_before_it_where_there_is_one() -> None:
    """Before any cell a line is the phase alone, without the colon that would follow a cell."""
    display = Plain(stream=io.StringIO())
    display.phase("preparing tasks", 0)
    display.cell("msct", 0, CellState.RUNNING)
    display.phase("verifying", 40)
    lines = [line.partition("] ")[2] for line in display.stream.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert lines == ["preparing tasks", "msct seed 0: running", "msct seed 0: verifying 40"]
