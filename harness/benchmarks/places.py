"""What a short kernel's time depends on beside the kernel: `tritonrl bench places`.

Of each kernel there are variants that differ from one another in one thing: in the copy of the code that is launched,
loaded right after the one before it or with others between; in the pages of memory that the buffers lie in; in the page
that the driver keeps the graph in; or in nothing. Variants of code and data are captured anew, into three pages each:
"capture" is what that does on its own, and "graph" what a single page does. All variants of a kernel are replayed in
turns, in one sequence and in this process, so that the spread of their means says what a thing is worth, and the spread
of equal ones what of it is chance. The calibrated protocol averages over places (docs/decisions/0006).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import torch
from attrs import frozen

from ...core.config import Config
from ...core.plan import LaunchPlan
from ...core.statistics.intervals import trimmed_mean
from ..cuda.executor import Executor
from ..cuda.graphs import Scratch, capture
from ..cuda.launcher import DriverError, is_of_memory
from ..cuda.memory import DeviceBuffers
from ..cuda.pages import Pages, in_pages
from ..cuda.protocol import Protocol
from ..cuda.stopwatch import Lane, Stopwatch, Subject, is_short
from ..errors import UsageError
from ..verification.verifier import open_verifier
from .timing import Prepared, draw, prepare

KINDS = ("nothing", "capture", "code, side by side", "code, far apart", "data", "graph")
_NUM_PASSES = 4
"""Measurements of all variants; how much they differ says what is chance."""
_APART_BYTES = 24 << 20
"""More than the largest stretch that PyTorch's allocator cuts small tensors from."""
_NUM_PAGES = 3
_DRAWN = 4
"""So many kernels are drawn for each that is wanted, as many are not short."""
MakeCopy = Callable[[], Callable[[DeviceBuffers], Callable[[], None]]]
"""Loads the plan's code once more; what it gives makes a function of buffers that puts the plan on the stream."""


@frozen(kw_only=True)
class Spreads:
    """One kernel: by kind, the standard deviation of the variants' means as a share of the kernel's time.

    `chance` is that of one mean, from what the same variant gives in the several passes.
    """

    kernel: str
    us: float
    by_kind: dict[str, float]
    chance: float


@frozen(kw_only=True)
class PlacesFigures:
    """What `tritonrl bench places` prints."""

    device: str
    seed: int
    num_variants: int
    gap: int
    kernels: tuple[Spreads, ...]
    unusable: tuple[str, ...]
    """Kernels that could not be prepared."""


def run(config: Config, num_kernels: int, num_variants: int, gap: int, seed: int, jobs: int) -> PlacesFigures:
    """Examine the first `num_kernels` short ones; raises UsageError where there is no GPU."""
    protocol = Protocol.of(config.clock, True)
    with open_verifier(config) as verifier:
        cuda = verifier.bench.cuda
        if cuda is None:
            raise UsageError("bench places: needs a GPU")
        with ThreadPoolExecutor(jobs) as pool:
            examples = draw(_DRAWN * num_kernels, seed)
            prepared = list(pool.map(lambda example: prepare(verifier, example), examples))
        found: list[Spreads] = []
        turns = cuda.executors[0].turns
        torch.cuda.set_device(cuda.executors[0].device)
        for one in prepared:
            if isinstance(one, str) or len(found) == num_kernels:
                continue
            kernels = {kernel.binary for kernel in one.plan.kernels if kernel.binary is not None}
            binaries = {sha256: verifier.bench.store.get_blob(sha256) or b"" for sha256 in kernels}
            with turns.exclusive():
                spreads = _examine_prepared(one, binaries, protocol, num_variants, gap)
            found += [spreads] if spreads is not None else []
        device = cuda.device_name
    return PlacesFigures(
        device=device,
        seed=seed,
        num_variants=num_variants,
        gap=gap,
        kernels=tuple(found),
        unusable=tuple(one for one in prepared if isinstance(one, str)),
    )


def _examine_prepared(
    one: Prepared, binaries: dict[str, bytes], protocol: Protocol, num_variants: int, gap: int
) -> Spreads | None:
    given = {
        index: torch.frombuffer(bytearray(data or b"\0"), dtype=torch.uint8)[: len(data)].cuda()
        for index, data in one.storages.items()
    }

    executors: list[Executor] = []
    pages = Pages()

    def make_copy() -> Callable[[DeviceBuffers], Callable[[], None]]:
        executor = Executor()  # it loads what it launches itself
        executors.append(executor)
        return lambda buffers: executor.prepare(one.plan, buffers, binaries)

    try:
        return examine(one.name, one.plan, given, make_copy, protocol, num_variants, gap, pages)
    finally:
        torch.cuda.synchronize()
        pages.free()
        for executor in executors:
            executor.unload()


def examine(
    name: str,
    plan: LaunchPlan,
    given: Mapping[int, torch.Tensor],
    make_copy: MakeCopy,
    protocol: Protocol,
    num_variants: int,
    gap: int,
    pages: Pages,
) -> Spreads | None:
    """The spreads of one plan's variants; None for a plan that is not short, or that cannot have pages of its own."""
    scratch, copy = Scratch(), make_copy()
    buffers = DeviceBuffers(plan, given)
    perform = copy(buffers)
    perform()
    torch.cuda.synchronize()
    try:
        work = capture(perform, scratch)
    except (RuntimeError, DriverError) as error:
        if is_of_memory(error):
            raise
        return None
    if not is_short(work):
        return None
    kept: list[object] = [copy, perform]
    """What a graph launches with holds addresses alone."""

    def put(work: Callable[[], None]) -> list[Callable[[], None]]:
        kept.append(work)
        return in_pages(capture(work, scratch), pages, _NUM_PAGES)

    def another_copy(gap: int) -> Callable[[DeviceBuffers], Callable[[], None]]:
        for _ in range(gap):
            filler = make_copy()
            filler(buffers)  # code is loaded when a launch is prepared
            kept.append(filler)
        return make_copy()

    def far_buffers() -> DeviceBuffers:
        far = DeviceBuffers(plan, given, _APART_BYTES)
        kept.append(far)
        return far

    same = put(copy(buffers))
    subjects = [_subject("nothing", number, same) for number in range(num_variants)]
    subjects += [_subject("capture", number, put(copy(buffers))) for number in range(num_variants)]
    for kind, between in (("code, side by side", 0), ("code, far apart", gap)):
        subjects += [_subject(kind, n, put(another_copy(between)(buffers))) for n in range(num_variants)]
    subjects += [_subject("data", number, put(copy(far_buffers()))) for number in range(num_variants)]
    others = in_pages(work, pages, num_variants)
    if len(others) < num_variants:
        return None
    subjects += [_subject("graph", number, [other]) for number, other in enumerate(others)]
    stopwatch = Stopwatch()
    passes = [stopwatch.measure(subjects, protocol).us for _ in range(_NUM_PASSES)]
    return summarise(name, [{key: trimmed_mean(us, protocol.trim) for key, us in one.items()} for one in passes])


def _subject(kind: str, number: int, works: list[Callable[[], None]]) -> Subject:
    return Subject(name=f"{kind}: {number}", lanes=tuple(Lane(work=work) for work in works))


def summarise(name: str, passes: list[dict[str, float]]) -> Spreads:
    """Spreads from the time of each variant ("KIND: NUMBER") in each pass.

    What a pass has in common, a drift of the clocks for one, is taken out of it.
    """
    typical = statistics.mean(us for one in passes for us in one.values())
    centred = [{key: us - statistics.mean(one.values()) for key, us in one.items()} for one in passes]
    across = {key: [one[key] for one in centred] for key in passes[0]}
    chance = statistics.mean(statistics.variance(values) for values in across.values()) / len(passes)
    by_kind = {}
    for kind in KINDS:
        means = [statistics.mean(values) for key, values in across.items() if key.rsplit(":", 1)[0] == kind]
        by_kind[kind] = statistics.stdev(means) / typical
    return Spreads(kernel=name, us=typical, by_kind=by_kind, chance=chance**0.5 / typical)


def render(figures: PlacesFigures) -> list[str]:
    """The figures as lines for a person."""
    lines = [f"{figures.num_variants} variants of each kind on {figures.device}, spread of their means"]
    lines.append(f"{'':44}{'us':>7}{'chance':>8}" + "".join(f"{kind:>20}" for kind in KINDS))
    for kernel in figures.kernels:
        shares = "".join(f"{kernel.by_kind[kind]:>20.2%}" for kind in KINDS)
        lines.append(f"{kernel.kernel[:44]:44}{kernel.us:7.2f}{kernel.chance:8.2%}{shares}")
    return lines + [f"not measured: {text}" for text in figures.unusable]
