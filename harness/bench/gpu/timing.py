"""How much timing noise there is at the level of the measurement, by four ways to time the same kernels.

"Calibrated" is the product's (`harness.gpu.timing.stopwatch`). Beside it "single", one cold measurement; "events", the
study's protocol, device events around launches from Python after warm-ups; and `triton.testing.do_bench`. All four time
the same launches of the same plans: teachers of the corpus at their declared sizes, and at larger ones, so that
runtimes range from a few microseconds to milliseconds. A measurement allocates, prepares and captures anew. Kernels
come up in turns, several visits each, so that what lies between two measurements of a kernel is what lies between two
in a study.

A/A speedup is a kernel against itself: the calibrated protocol measures both sides in turns, as it does with a
reference; the others have one measurement after the other, which is all that they offer.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

from attrs import evolve, frozen
from scipy.stats import kendalltau

from ....core.candidate import Failure, Variant
from ....core.config import Config
from ....core.plan import LaunchPlan
from ....core.statistics.intervals import trimmed_mean
from ....core.task import Example, Profile
from ....core.text.named_sizes import read_constants
from ....stages.variants import describe
from ...errors import TaskError, UsageError
from ...gpu.timing.protocol import Protocol
from ...reference.operators import trace_operators
from ...reference.sizes.declared_sizes import with_declared
from ...tasks.suites import corpus_examples
from ...verification.recordings import record_request
from ...verification.storages import fill_storages
from ...verification.verifier import Verifier, open_verifier

PROTOCOLS = ("calibrated", "single", "events", "do_bench")
_GROWTHS = (1, 4, 1, 16, 2, 64)
"""Factors on a task's first size, taken in turns."""
_MOST_BYTES = 200 << 20
_BANDS = (5.0, 20.0, 50.0, 200.0, math.inf)
"""Upper ends of the ranges of runtimes that are told apart, in microseconds."""

Trials = dict[str, list[float]]
"""One measurement: trials in microseconds by protocol, and those of the control."""


@frozen(kw_only=True)
class KernelFigures:
    """One kernel: by protocol the runtime that each measurement gives, and speedups of the kernel against itself."""

    task: str
    us: dict[str, tuple[float, ...]]
    self_speedups: dict[str, tuple[float, ...]]

    @property
    def typical_us(self) -> float:
        """The calibrated protocol's median."""
        return statistics.median(self.us["calibrated"])

    def cv(self, protocol: str) -> float:
        us = self.us[protocol]
        return statistics.stdev(us) / statistics.fmean(us) if len(us) > 1 else 0.0


@frozen(kw_only=True)
class BandFigures:
    """Kernels of about the same runtime; CVs are between measurements, by protocol."""

    up_to_us: float | None
    num_kernels: int
    median_cv: dict[str, float]
    largest_cv: dict[str, float]
    self_speedups_within_1: dict[str, float]
    """Share of A/A speedups within 1%."""
    over_do_bench: tuple[float, float]
    """Least and largest ratio of the calibrated runtime to do_bench's."""


@frozen(kw_only=True)
class Target:
    """What the calibrated protocol promises, and what was found."""

    name: str
    bound: float
    found: float
    is_met: bool


@frozen(kw_only=True)
class TimingFigures:
    """What `tritonrl bench timing` prints; tau is the least between two successive visits' rankings of all kernels."""

    device: str
    seed: int
    num_measurements: int
    bands: tuple[BandFigures, ...]
    tau: dict[str, float]
    targets: tuple[Target, ...]
    kernels: tuple[KernelFigures, ...]
    unusable: tuple[str, ...]
    """Kernels that could not be measured."""


@frozen(kw_only=True)
class Prepared:
    """A plan with values to run it on."""

    name: str
    plan: LaunchPlan
    storages: dict[int, bytes]


def measure_timing(
    config: Config,
    num_kernels: int,
    num_visits: int,
    num_repeats: int,
    seed: int,
    jobs: int,
    on_visit: Callable[[str], None],
) -> TimingFigures:
    """Measure `num_kernels` kernels, `num_repeats` times at each of `num_visits` visits.

    `on_visit` is told after each visit what the targets' figures are so far. Raises UsageError without a GPU.
    """
    began = time.monotonic()
    protocol = Protocol.of(config.timing, True)
    with open_verifier(config) as verifier:
        cuda = verifier.context.cuda
        if cuda is None:
            raise UsageError("bench timing: needs a GPU")
        verifier.context.get_ready()
        with ThreadPoolExecutor(jobs) as pool:
            prepared = list(pool.map(lambda example: prepare(verifier, example), draw(num_kernels, seed)))
        subjects = [one for one in prepared if isinstance(one, Prepared)]
        unusable = [one for one in prepared if isinstance(one, str)]
        found: dict[int, list[Trials]] = {number: [] for number in range(len(subjects))}
        for visit in range(num_visits):
            for number, subject in enumerate(subjects):
                if number not in found:
                    continue
                measured = cuda.compare_protocols(subject.plan, subject.storages, protocol, num_repeats)
                if isinstance(measured, Failure):
                    unusable.append(f"{subject.name}: {measured.outcome}: {measured.message}")
                    del found[number]
                else:
                    found[number] += measured
            kernels = [condense(subjects[number].name, taken, config.timing.trim) for number, taken in found.items()]
            so_far = summarise(cuda.device_name, seed, num_repeats, kernels, unusable).targets
            figures = ", ".join(f"{target.name} {target.found:.4g}" for target in so_far)
            on_visit(f"visit {visit + 1} of {num_visits}, {time.monotonic() - began:.0f} s: {figures}")
        device = cuda.device_name
    kernels = [condense(subjects[number].name, taken, config.timing.trim) for number, taken in found.items()]
    return summarise(device, seed, num_repeats, kernels, unusable)


def draw(num_kernels: int, seed: int) -> list[Example]:
    """Teachers of the corpus, some of them with a larger first size."""
    examples = list(corpus_examples("core13:train", seed, math.ceil(num_kernels / 2)))[:num_kernels]
    return [grow(example, _GROWTHS[number % len(_GROWTHS)]) for number, example in enumerate(examples)]


def grow(example: Example, factor: int) -> Example:
    """The example with its first size multiplied by a factor, or by less where the task would get too large."""
    sizes = read_constants(example.task.source)
    name = example.task.small[0][0]
    while factor > 1:
        task = with_declared(example.task, ((name, sizes[name] * factor),))
        try:
            if max(operator.num_bytes for operator in trace_operators(task)) <= _MOST_BYTES:
                return evolve(example, task=task)
        except TaskError:
            pass
        factor //= 2
    return example


def prepare(verifier: Verifier, example: Example) -> Prepared | str:
    """The teacher's plan, compiled, with the original inputs, or why there is none."""
    task, context = example.task, verifier.context
    sizes = ", ".join(f"{name} {size}" for name, size in read_constants(task.source).items())
    name = f"{task.task_id.rsplit('-', 1)[0]} ({sizes})"
    request = record_request(task, context.oracle, Profile.DECLARED, task.dtypes[0], compile=True)
    reply = context.sandbox.record(example.solution, [request])
    context.store.put_blobs(reply.blobs)
    plan = reply.recordings[0].plan if reply.recordings else None
    if plan is None:
        return f"{name}: not recorded"
    expected = context.oracle.expected(task, describe(Variant.ORIGINAL, task.dtypes, Profile.DECLARED))
    storages = fill_storages(plan, expected, context.store.get_blob)
    return (
        f"{name}: {storages.message}"
        if isinstance(storages, Failure)
        else Prepared(name=name, plan=plan, storages=storages)
    )


def condense(name: str, taken: Sequence[Trials], trim: float) -> KernelFigures:
    us = {protocol: tuple(_estimate(protocol, trials[protocol], trim) for trials in taken) for protocol in PROTOCOLS}
    controls = [trimmed_mean(trials["control"], trim) for trials in taken]
    self_speedups = {
        protocol: tuple(later / earlier for earlier, later in pairwise(us[protocol])) for protocol in PROTOCOLS
    }
    in_turns = tuple(control / one for one, control in zip(us["calibrated"], controls, strict=True))
    return KernelFigures(task=name, us=us, self_speedups={**self_speedups, "calibrated": in_turns})


def _estimate(protocol: str, trials: Sequence[float], trim: float) -> float:
    # do_bench gives a mean unless it is asked for something else
    return trimmed_mean(trials, 0.0 if protocol == "do_bench" else trim)


def summarise(
    device: str,
    seed: int,
    num_repeats: int,
    kernels: Sequence[KernelFigures],
    unusable: Sequence[str],
) -> TimingFigures:
    ordered = sorted(kernels, key=lambda kernel: kernel.typical_us)
    bands = []
    low = 0.0
    for high in _BANDS:
        inside = [kernel for kernel in ordered if low <= kernel.typical_us < high]
        if inside:
            bands.append(_summarise_band(high, inside))
        low = high
    tau = {protocol: least_tau([kernel.us[protocol] for kernel in ordered], num_repeats) for protocol in PROTOCOLS}
    return TimingFigures(
        device=device,
        seed=seed,
        num_measurements=len(ordered[0].us["calibrated"]) if ordered else 0,
        bands=tuple(bands),
        tau=tau,
        targets=tuple(find_targets(ordered, tau["calibrated"])),
        kernels=tuple(ordered),
        unusable=tuple(unusable),
    )


def _summarise_band(high: float, kernels: Sequence[KernelFigures]) -> BandFigures:
    ratios = [_over_do_bench(kernel) for kernel in kernels]
    return BandFigures(
        up_to_us=high if math.isfinite(high) else None,
        num_kernels=len(kernels),
        median_cv={name: statistics.median(kernel.cv(name) for kernel in kernels) for name in PROTOCOLS},
        largest_cv={name: max(kernel.cv(name) for kernel in kernels) for name in PROTOCOLS},
        self_speedups_within_1={name: _within(kernels, name) for name in PROTOCOLS},
        over_do_bench=(min(ratios), max(ratios)),
    )


def _within(kernels: Iterable[KernelFigures], protocol: str) -> float:
    ratios = [ratio for kernel in kernels for ratio in kernel.self_speedups[protocol]]
    return sum(abs(ratio - 1.0) <= 0.01 for ratio in ratios) / max(1, len(ratios))


def _over_do_bench(kernel: KernelFigures) -> float:
    return kernel.typical_us / statistics.median(kernel.us["do_bench"])


def least_tau(measured: Sequence[Sequence[float]], num_repeats: int) -> float:
    """The least agreement between the rankings of two successive visits, by the first measurement of each."""
    if len(measured) < 2:
        return 0.0
    num_visits = min(map(len, measured)) // num_repeats
    rankings = [[one[visit * num_repeats] for one in measured] for visit in range(num_visits)]
    taus = [float(kendalltau(first, second).statistic) for first, second in pairwise(rankings)]
    # scipy says NaN where all are equal
    return min((tau for tau in taus if not math.isnan(tau)), default=0.0)


def find_targets(kernels: Sequence[KernelFigures], tau: float) -> list[Target]:
    """The calibrated protocol against its promises; those without a kernel to show them are left out."""

    def from_us(least: float) -> list[KernelFigures]:
        return [kernel for kernel in kernels if kernel.typical_us >= least]

    targets = []
    for least, bound in ((5.0, 0.01), (50.0, 0.003)):
        if chosen := from_us(least):
            found = max(kernel.cv("calibrated") for kernel in chosen)
            targets.append(_at_most(f"largest run-to-run CV from {least:g} us", bound, found))
    if chosen := from_us(20.0):
        found = max(abs(_over_do_bench(kernel) - 1.0) for kernel in chosen)
        targets.append(_at_most("largest difference to do_bench from 20 us", 0.05, found))
    if chosen := from_us(5.0):
        targets.append(_at_least("A/A speedups within 1%, from 5 us", 0.95, _within(chosen, "calibrated")))
    targets.append(_at_least("Kendall tau between two rankings", 0.95, tau))
    return targets


def _at_most(name: str, bound: float, found: float) -> Target:
    return Target(name=name, bound=bound, found=found, is_met=found <= bound)


def _at_least(name: str, bound: float, found: float) -> Target:
    return Target(name=name, bound=bound, found=found, is_met=found >= bound)


def render(figures: TimingFigures) -> list[str]:
    lines = [f"{len(figures.kernels)} kernels on {figures.device}, {figures.num_measurements} measurements each"]
    lines.append(f"{'':34}" + "".join(f"{name:>12}" for name in PROTOCOLS))

    def row(title: str, value_of: Callable[[str], float], form: str) -> None:
        lines.append(f"{title:34}" + "".join(f"{value_of(name):>12{form}}" for name in PROTOCOLS))

    low = 0.0
    for band in figures.bands:
        end = f"to {band.up_to_us:g} us" if band.up_to_us is not None else "and more"
        lines.append(f"{low:g} {end}: {band.num_kernels} kernels")
        row("  median CV between measurements", band.median_cv.__getitem__, ".2%")
        row("  largest CV", band.largest_cv.__getitem__, ".2%")
        row("  A/A speedups within 1%", band.self_speedups_within_1.__getitem__, ".1%")
        lines.append(f"  calibrated over do_bench          {band.over_do_bench[0]:.3f} to {band.over_do_bench[1]:.3f}")
        low = band.up_to_us or low
    row("Kendall tau between visits", figures.tau.__getitem__, ".3f")
    lines.append("median us")
    for kernel in figures.kernels:
        medians = "".join(f"{statistics.median(kernel.us[name]):12.2f}" for name in PROTOCOLS)
        lines.append(f"  {kernel.task[:60]:60}{medians}")
    for target in figures.targets:
        word = "met" if target.is_met else "MISSED"
        lines.append(f"{target.name}: {target.found:.4f}, target {target.bound:g}: {word}")
    return lines + [f"not measured: {text}" for text in figures.unusable]
