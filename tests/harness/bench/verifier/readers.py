"""A reader that dies, for the test of how that is seen; a module of its own, since each process imports it."""

import os
from collections.abc import Sequence

from tritonrl.harness.bench.verifier.fuzz_reading import TextResult


def end_at_seven(numbers: Sequence[int]) -> list[TextResult]:
    """Ends the process at completion 7."""
    if 7 in numbers:
        os._exit(1)
    return [TextResult(number=number, outcome=None, cpu_s=0.0) for number in numbers]
