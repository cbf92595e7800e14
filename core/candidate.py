"""A candidate solution and the evidence gathered about it.

Probes (`harness.verification`) do the work and attach evidence; stages (`stages`) read it and decide. Evidence
is plain data, so a decision can be tested without a sandbox and replayed years later from what was stored.
"""

from __future__ import annotations

import hashlib
from enum import StrEnum
from typing import Protocol

from attrs import evolve, field, frozen

from .outcome import Outcome, printable
from .plan import LaunchPlan, Purity
from .task import Profile


class Variant(StrEnum):
    """The inputs that a candidate is run on; the first five are the study's multi-input test (extension M).

    `stages.variants` has the table of them.
    """

    ORIGINAL = "original"
    SCALED = "scaled"
    RESEEDED = "reseeded"
    LARGER = "larger"
    PRECISION = "precision"
    # hidden from the five, used by the audit verifier alone
    REVERSED = "reversed"
    NEGATED = "negated"
    SCALE_1E_2 = "scale_1e-2"
    SCALE_1E5 = "scale_1e5"
    SCALE_3 = "scale_3"
    HALF_NEGATED = "half_negated"
    SHIFT_2 = "shift_2"
    OUTLIERS = "outliers"
    OUTLIERS_1000 = "outliers_1000"
    ALL_POSITIVE = "all_positive"
    ALL_NEGATIVE = "all_negative"
    SHIFT_MINUS_2000 = "shift_-2000"
    SCALE_30_SHIFT_100 = "scale_30_shift_100"
    TIES = "ties"
    SCALE_1E_2_SHIFT_1000 = "scale_1e-2_shift_1000"
    SCALE_1E_8 = "scale_1e-8"
    SCALE_1E30 = "scale_1e30"
    ALL_POSITIVE_1E20 = "all_positive_1e20"
    ALL_NEGATIVE_1E20 = "all_negative_1e20"
    SCALE_1E_4 = "scale_1e-4"
    SCALE_100 = "scale_100"
    FP16_SCALE_300 = "fp16_scale_300"
    INTEGERS_NEGATED = "integers_negated"
    INTEGERS_LARGE = "integers_large"
    INTEGERS_REPEATED = "integers_repeated"
    MASKS_MIXED = "masks_mixed"
    MASKS_EMPTIED = "masks_emptied"
    NAN_AMONG_THEM = "nan_among_them"
    INFINITY_AMONG_THEM = "infinity_among_them"
    EXACT_PRODUCTS = "exact_products"
    EXACT_PRODUCTS_16 = "exact_products_16"
    SPREAD_30 = "spread_2^30"
    SPREAD_90 = "spread_2^90"
    ALIKE = "alike"
    NUMBERS = "numbers"
    REMAINDER = "remainder"
    DECLARED = "declared"
    DECLARED_PRECISION = "declared_precision"
    BETWEEN = "between"
    BEYOND = "beyond"
    SECOND_CALL = "second_call"
    TIMED = "timed"
    WHOLE_BLOCKS = "whole_blocks"
    SHORT_FLOATS = "short_floats"
    INNER_ONE = "inner_one"
    ONE_SIZE = "one_size"
    OTHER_SIZE = "other_size"
    TWICE = "twice"
    CANCELLING_PRODUCTS = "cancelling_products"
    ARRANGED = "arranged"
    PAST_BOUNDS = "past_bounds"


@frozen
class Failure:
    """Why a probe could not finish: an outcome, and one line for a person (Triton's own message, say)."""

    outcome: Outcome
    message: str = field(default="", converter=printable)


SETTING = "where "
"""Begins the words of a choice that is one of PyTorch's settings and not a tuner's configuration."""


def is_setting(words: tuple[str, ...]) -> bool:
    """Whether a recording's choice is a setting, which users make and no tuner does."""
    return bool(words) and words[0].startswith(SETTING)


@frozen(kw_only=True)
class Recording:
    """One recorded pass: the sizes and dtype it was recorded for, and the plan or the reason there is none."""

    profile: Profile
    dtype: str
    plan: LaunchPlan | None = None
    failure: Failure | None = None
    choices: tuple[tuple[str, ...], ...] = ()
    """The configurations that each autotuner had, in the order of their first use; with another key it is another."""
    first_plan: LaunchPlan | None = None
    """Where it was asked for and a tuner measures: the plan of a first call, with launches that measure."""


@frozen(kw_only=True)
class ReferenceSignature:
    """What the reference returns and needs at the declared sizes, found without computing any value.

    `used_inputs` are the positions of the inputs that the reference's result depends on; `parameters` are its
    state-dict keys; `shapes` and `dtypes` describe the returned tensors.
    """

    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    used_inputs: tuple[int, ...]
    parameters: tuple[str, ...] = ()
    num_bytes: int = 0
    """Of inputs, parameters and results; 0 where it was recorded before they were counted."""


@frozen(kw_only=True)
class CompileReport:
    """The recordings, one for each profile and dtype asked for, the compiled declared one first."""

    recordings: tuple[Recording, ...]
    reference: ReferenceSignature
    seconds: float
    failure: Failure | None = None
    """Set where the child process failed as a whole, so that there are no recordings."""


@frozen(kw_only=True)
class Comparison:
    """How one returned tensor differs from the fp64 oracle; ratios are 0 for equality.

    `relative_error` is the 2-norm of the difference over the 2-norm of the expected values; `worst_excess` is the
    largest elementwise |difference| / (|expected| + root mean square of expected); both computed over elements that
    are finite in both. `worst_element` is the largest |difference| over the element's own scale, where it has one
    (`harness.reference.conditioning`). `num_nonfinite` counts elements that are NaN or infinite where the oracle's are
    finite, or the reverse, or infinities of opposite sign. For integer results `num_different` counts unequal elements
    and the ratios are 0. `shape` is the oracle's; evidence of earlier versions has none.
    """

    dtype: str
    shape_matches: bool
    dtype_matches: bool
    num_elements: int
    num_nonfinite: int = 0
    num_different: int = 0
    share_of_tolerance: float = 1.0
    """What of the dtype's tolerance is granted: less where no matrix units excuse any rounding."""
    relative_error: float = 0.0
    worst_excess: float = 0.0
    worst_element: float = 0.0
    shape: tuple[int, ...] = ()


@frozen(kw_only=True)
class RunReport:
    """One execution of a plan on one variant's inputs."""

    variant: Variant
    seconds: float = 0.0
    comparisons: tuple[Comparison, ...] = ()
    failure: Failure | None = None
    oracle_dtype: str = "float64"
    """What the expected values were computed in: "float32" where a GPU's memory does not hold the reference's."""
    sizes: str = ""
    """In words, where the variant does not say which they are."""
    work: float = 0.0
    """What all programs compute (`RunResult.work`), by the few of a brief sample."""


@frozen(kw_only=True)
class ClockReading:
    """A GPU's state while it was measured; `throttled_by` names what held its clocks down, and is empty for nothing."""

    sm_mhz: int
    max_sm_mhz: int
    memory_mhz: int
    temperature_c: int
    throttled_by: tuple[str, ...] = ()


@frozen(kw_only=True)
class ReferenceTiming:
    """A task's reference on a GPU, in microseconds: eager, the same with TF32, and by `torch.compile`.

    TF32 is off but where the name says otherwise, as in the oracle's contract. The three were measured in turns, so
    that their ratios hold. `is_captured` says whether a CUDA graph was replayed; what cannot be captured is launched
    from Python. A figure that is missing is empty, and `notes` say why.
    """

    device: str
    eager_us: tuple[float, ...] = ()
    tf32_us: tuple[float, ...] = ()
    compiled_us: tuple[float, ...] = ()
    is_captured: bool = True
    notes: tuple[str, ...] = ()
    clocks: ClockReading | None = None
    seconds: float = 0.0


@frozen(kw_only=True)
class ConfigurationTime:
    """How long one of an autotuner's configurations takes, null where it does not run; the quickest is timed."""

    description: str
    us: float | None = None
    is_chosen: bool = False


@frozen(kw_only=True)
class TimingReport:
    """Runtimes of candidate and reference, in microseconds, one a trial.

    `simulated` is true where timing is the roofline estimate with injected noise (`stages.roofline`); such a
    report yields `estimated_speedup` and never `speedup`. What follows `failure` is for measured timing alone:
    `control_us` is the candidate once more, in turns with the others (the A/A control); `check` compares the results
    of the very trials that were timed, and of a replay on other values, with the oracle; `reference` holds the
    figures that are measured once for a task. `num_late` counts replays at which the queue of launches had run empty.
    `configurations` are those of an autotuned plan, the one that was timed among them.
    """

    simulated: bool
    calibrated: bool
    candidate_us: tuple[float, ...]
    reference_us: tuple[float, ...]
    seconds: float
    failure: Failure | None = None
    control_us: tuple[float, ...] = ()
    check: RunReport | None = None
    reference: ReferenceTiming | None = None
    clocks: ClockReading | None = None
    device: str = ""
    num_attempts: int = 1
    num_late: int = 0
    configurations: tuple[ConfigurationTime, ...] = ()


class CheckReport(Protocol):
    """What a check of the full stage has found (`stages.checks`)."""

    @property
    def seconds(self) -> float:
        """Returns what gathering it took."""
        ...


@frozen(kw_only=True)
class Evidence:
    """What is known so far; null or empty = not gathered."""

    compile: CompileReport | None = None
    tiny: RunReport | None = None
    reports: tuple[tuple[str, CheckReport], ...] = ()
    """The full stage's checks by name, in the order in which they were made."""
    timing: TimingReport | None = None
    ast_seconds: float = 0.0

    def report(self, name: str) -> CheckReport | None:
        """Returns a check's report, or None where the check was not made."""
        return dict(self.reports).get(name)


@frozen(kw_only=True)
class Candidate:
    """Source text offered as a solution of a task, with its evidence."""

    task_id: str
    source: str
    evidence: Evidence = field(factory=Evidence)
    purity: Purity = "strict"
    """What the verifier that gathers the evidence admits."""

    @property
    def sha256(self) -> str:
        """Identity of the source text."""
        return hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()

    def with_evidence(self, **changes: object) -> Candidate:
        """This candidate with more evidence attached."""
        return evolve(self, evidence=evolve(self.evidence, **changes))  # type: ignore[arg-type]

    def with_report(self, name: str, report: CheckReport) -> Candidate:
        """Returns this candidate with a check's report attached, in the place of one that it has already."""
        return self.with_evidence(reports=tuple({**dict(self.evidence.reports), name: report}.items()))
