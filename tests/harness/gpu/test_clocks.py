"""What the driver says of a GPU's clocks, read."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.candidate import ClockReading
from tritonrl.harness.gpu.timing.clocks import name_throttles, parse_smi, read_clocks


def test_a_line_of_nvidia_smi_is_a_reading() -> None:
    """Clocks, temperature and what holds the clocks down are read from the query's line."""
    expected = ClockReading(
        sm_mhz=1755, max_sm_mhz=1980, memory_mhz=3201, temperature_c=61, throttled_by=("power cap", "thermal slowdown")
    )
    assert parse_smi("1755, 1980, 3201, 61, 0x0000000000000024\n") == expected


@given(st.text(max_size=60))
def test_any_other_line_is_no_reading(line: str) -> None:
    """A line with a field missing or unsupported is None, never an exception."""
    found = parse_smi(line)
    assert found is None or line.count(",") >= 4
    assert parse_smi("[N/A], 1980, 3201, 61, 0x0") is None


@given(st.integers(0, 2**16))
def test_idle_clocks_are_not_held_down(reasons: int) -> None:
    """Idleness, clocks that were asked for and the display's are not among the names; every other bit has one."""
    harmless = 0x1 | 0x2 | 0x100
    assert name_throttles(reasons) == name_throttles(reasons & ~harmless)
    assert len(name_throttles(reasons)) == (reasons & 0xEC).bit_count()


def test_a_gpu_that_is_not_there_has_no_reading() -> None:
    """Where neither library nor tool knows the GPU, a timing does without."""
    assert read_clocks("GPU-00000000-0000-0000-0000-000000000000") is None
