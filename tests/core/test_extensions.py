"""The extensions and the cells that they span."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.extensions import ALL_CELLS, LETTERS, Extensions, VerifierSpec

cells = st.builds(
    Extensions, multi_input=st.booleans(), staged=st.booleans(), curriculum=st.booleans(), timing=st.booleans()
)


@given(cells)
def test_a_cell_is_read_back_from_its_letters_in_any_order(cell: Extensions) -> None:
    """Name and cell are one to one, whatever the order and case of the letters."""
    assert Extensions.parse(str(cell)) == cell
    if cell.flags != (False,) * 4:
        assert Extensions.parse(str(cell)[::-1].upper()) == cell


def test_the_full_grid_has_each_cell_once() -> None:
    """Sixteen distinct cells, the baseline first and the full recipe last."""
    assert len(set(ALL_CELLS)) == len(ALL_CELLS) == 16
    assert (str(ALL_CELLS[0]), str(ALL_CELLS[-1])) == ("none", LETTERS)


@pytest.mark.parametrize("text", ["x", "mm", "msctm", "m s"])
def test_a_wrong_name_is_refused(text: str) -> None:
    """Unknown and repeated letters are errors."""
    with pytest.raises(ValueError, match="extension"):
        Extensions.parse(text)


@given(cells)
def test_the_curriculum_is_no_matter_of_the_verifier(cell: Extensions) -> None:
    """The training verifier follows M, S and T, and never sees the hidden variants."""
    spec = VerifierSpec.for_training(cell)
    assert (spec.multi_input, spec.stop_early, spec.calibrated) == (cell.multi_input, cell.staged, cell.timing)
    assert not spec.hidden
