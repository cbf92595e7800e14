"""What the judge and an executor say to each other about timing; plain records that travel as JSON."""

from __future__ import annotations

from attrs import fields_dict, frozen

from ....core.candidate import ClockReading, Failure
from ....core.config import Compiling, TimingConfig
from ....core.run import RunResult
from ....core.task import Task


@frozen(kw_only=True)
class Protocol:
    """How runtimes are measured (`core.config.TimingConfig` says what the numbers mean).

    Without `is_calibrated` it is one cold measurement: one run to load the code, and one between two events.
    """

    is_calibrated: bool
    warmups: int
    trials: int
    trim: float
    replays: int
    short_us: float
    buffer_copies: int
    flush_mb: int
    budget_s: float
    control_tolerance: float
    attempts: int

    @classmethod
    def of(cls, timing: TimingConfig, is_calibrated: bool) -> Protocol:
        names = set(fields_dict(cls)) - {"is_calibrated"}
        return cls(is_calibrated=is_calibrated, **{name: getattr(timing, name) for name in names})


@frozen(kw_only=True)
class ReferenceSource:
    """A trusted reference to time, on inputs of its own, drawn from `seed` in `dtype`."""

    task: Task
    dtype: str
    seed: int


@frozen(kw_only=True)
class ReferenceRequest:
    """A reference to measure eager, with TF32 and compiled in the given mode."""

    source: ReferenceSource
    protocol: Protocol
    compiling: Compiling


@frozen(kw_only=True)
class Trials:
    """Microseconds by subject, one a trial, in the order in which they were taken.

    `num_late` counts replays at which the device had run out of queued work, however often they were repeated;
    `num_attempts` the measurements of which this is the last.
    """

    us: dict[str, tuple[float, ...]]
    num_late: int = 0
    num_attempts: int = 1
    clocks: ClockReading | None = None


@frozen(kw_only=True)
class Timed:
    """A plan's trials, the result of the run before them and of a replay after them, and how far trials strayed.

    `deviations` has for each output the largest difference between a trial's result and the first run's, as 2-norm
    over the first's (for integers: the share of elements that differ); null where it is not finite.
    """

    trials: Trials | None = None
    first: RunResult | None = None
    fresh: RunResult | None = None
    deviations: tuple[float | None, ...] = ()
    failure: Failure | None = None
