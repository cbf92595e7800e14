"""Whether each configuration that an autotuner could choose is right.

On a device a tuner takes whatever configuration is the fastest, and one that does nothing is.
"""

from __future__ import annotations

import math

from attrs import frozen

from ...core.candidate import Failure, Recording, RunReport
from ..judge_run import judge_run


@frozen(kw_only=True)
class ConfigurationRun:
    """A run with other configurations than the recorded ones, one for each tuner by its position; in words too."""

    choice: tuple[int, ...]
    description: str
    report: RunReport


@frozen(kw_only=True)
class ConfigurationsReport:
    """Runs of what tuners could choose, in the order in which they are judged."""

    runs: tuple[ConfigurationRun, ...]

    @property
    def seconds(self) -> float:
        """Returns the seconds of all runs."""
        return sum(run.report.seconds for run in self.runs)


def count_combinations(recording: Recording) -> int:
    """Returns in how many ways the tuners of a recording can choose together."""
    return math.prod(map(len, recording.choices))


def judge(report: ConfigurationsReport) -> Failure | None:
    """Returns the first objection to a configuration, with its name, or None."""
    for run in report.runs:
        failure = judge_run(run.report)
        if failure is not None:
            message = f"configuration {run.description or run.choice}: {failure.message}".rstrip(": ")
            return Failure(failure.outcome, message)
    return None
