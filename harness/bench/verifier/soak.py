"""Soaks a verifier in candidates for hours: memory must stay flat, and nothing be left behind.

Candidates of every fate go through the audit verifier: teachers in other words, plausible mistakes, texts that fail the
AST stage, all different, so that no cache answers. A third are hostile and go straight to a sandbox of their own with
tight limits, as if no stage had read them: they leave daemons and files, exhaust memory and processes, flood the
output, die in every way. After each round, when nothing runs, the judge's memory, descriptors, zombies and threads and
the scratch folders are counted; the first tenth of the rounds is warm-up.

Evidence is kept in a file, as in training: in memory it would grow with every candidate, and rightly so.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from statistics import linear_regression

from attrs import evolve, frozen

from ....core.config import Config, LimitsConfig
from ....core.corpus import corrupt
from ....core.recipe.extensions import AUDIT
from ....core.run import TensorSpec
from ....core.task import Example, Profile, Task
from ...sandbox.confinement.watch import descendants, processes
from ...sandbox.sandbox import Sandbox
from ...sandbox.wire import RecordRequest
from ...tasks.suites import corpus_examples
from ...verification.verifier import Verifier, open_verifier
from ..watching import read_kb, read_proc
from .mix import SPOILS, restyle

_MARKER = "tritonrl-soak"
_LEAST_ROUND, _ROUND_A_JOB = 30, 12
_TASKS_A_LEVEL = 4
_WARM_UP_SHARE = 0.1
_LIMITS = LimitsConfig(cpu_s=2, wall_s=3, memory_mb=512, file_mb=16, processes=32, output_mb=2)
_MODEL = "\nimport torch.nn as nn\nclass ModelNew(nn.Module):\n    def forward(self, x):\n        return x\n"
_HOSTILE = (
    "import os; os._exit(0)",
    "import os; os.abort()",
    "raise SystemExit(0)",
    "x = bytearray(1 << 40)",
    "x = []\nwhile True: x.append(bytes(1 << 22))",
    "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "import os\nwhile True: os.write(1, bytes(1 << 16))",
    "f = open('big', 'wb')\nwhile True: f.write(bytes(1 << 20))",
    "import os\nfor i in range(500): open(f'f{i}', 'w').close()\nos._exit(1)",
    "import socket; socket.create_connection(('127.0.0.1', 9))",
    "open('/etc/passwd').read()",
    "import ctypes; ctypes.CDLL(None).ptrace(16, 1, 0, 0)",
    "import ctypes; ctypes.string_at(0)",
    f"import os\nif os.fork() == 0:\n    os.setsid()\n    os.execv('/bin/sh', ['sh', '-c', 'sleep 600 # {_MARKER}'])",
    "import os\nfor number in range(1024):\n    try: os.write(number, bytes(99))\n    except OSError: pass",
    "import threading, time\nfor _ in range(8): threading.Thread(target=time.sleep, args=(9,), daemon=True).start()",
    "x = " + "(" * 50 + ")" * 50,
)


@frozen(kw_only=True)
class Census:
    """Memory, processes and files between two rounds, when nothing runs."""

    num_candidates: int
    judge_mb: float
    zygotes_mb: float
    descriptors: int
    threads: int
    zombies: int
    strays: int
    leftovers: int
    """Files and folders of ended jobs in the scratch roots."""


@frozen(kw_only=True)
class SoakFigures:
    """`first` follows the warm-up; the maxima are over all rounds from there on."""

    seed: int
    jobs: int
    num_candidates: int
    seconds: float
    outcomes: dict[str, int]
    first: Census
    last: Census
    max_judge_mb: float
    max_zygotes_mb: float
    max_descriptors: int
    judge_growth_mb_per_1000: float
    """Slope of a straight line through the rounds after the warm-up."""
    unclean_rounds: int
    """Rounds after which a zombie, a stray process or a leftover was found."""


def soak_verifier(
    config: Config, candidates: int, seed: int, jobs: int, on_progress: Callable[[Census], None]
) -> SoakFigures:
    """Feed `candidates` of them in rounds, `jobs` at once, and take stock after each round."""
    began = time.monotonic()
    rng = random.Random(f"soak:{seed}")
    outcomes: Counter[str] = Counter()
    censuses: list[Census] = []
    hostile_limits = evolve(_LIMITS, memory_mb=min(_LIMITS.memory_mb, config.limits.memory_mb))
    with (
        tempfile.TemporaryDirectory() as folder,
        open_verifier(config, Path(folder) / "evidence.sqlite") as verifier,
        Sandbox(hostile_limits, target=config.verifier.target) as hostile,
        ThreadPoolExecutor(max_workers=jobs) as pool,
    ):
        teachers = list(corpus_examples("core13:train", seed, _TASKS_A_LEVEL))
        roots = (Path(verifier.context.sandbox._root), Path(hostile._root))
        work = _draw(teachers, rng, verifier, hostile)
        size, done = max(_LEAST_ROUND, _ROUND_A_JOB * jobs), 0
        while done < candidates:
            batch = [next(work) for _ in range(min(size, candidates - done))]
            outcomes.update(pool.map(lambda judge: judge(), batch))
            done += len(batch)
            censuses.append(_count(done, roots))
            on_progress(censuses[-1])
    return _summarise(censuses, outcomes, seed, jobs, time.monotonic() - began)


def _draw(
    teachers: list[Example], rng: random.Random, verifier: Verifier, hostile: Sandbox
) -> Iterator[Callable[[], str]]:
    number = 0
    while True:
        number += 1
        example = rng.choice(teachers)
        fate = rng.random()
        if fate < 1 / 3:
            snippet = _HOSTILE[number % len(_HOSTILE)]
            yield partial(_attack, hostile, f"# {number}\n{snippet}{_MODEL}")
            continue
        if fate < 0.55:
            source = restyle(example.solution)
        elif fate < 0.85:
            source = corrupt(example.solution, rng)
        else:
            source = rng.choice(list(SPOILS.values()))(example, rng)
        source = f"# {number}\n{source}"
        yield partial(_verify, verifier, example.task, source)


def _verify(verifier: Verifier, task: Task, source: str) -> str:
    return verifier.verify(task, source, AUDIT).outcome.code


def _attack(sandbox: Sandbox, source: str) -> str:
    tensor = TensorSpec(shape=(4,), dtype="float32")
    init_json = '{"args": [], "kwargs": {}}'
    order = RecordRequest(profile=Profile.SMALL, dtype="float32", init_json=init_json, seed=0, inputs=(tensor,))
    reply = sandbox.record(source, [order])
    failure = reply.failure or reply.recordings[0].failure
    return f"hostile: {failure.outcome.code if failure else 'recorded'}"


def _count(done: int, roots: tuple[Path, ...]) -> Census:
    own = list(descendants())
    running = [pid for pid in own if not _is_zombie(pid)]
    strays = sum(_MARKER.encode() in read_proc(pid, "cmdline") for pid, _, _ in processes())
    left = sum(1 for root in roots for name in os.listdir(root) if name.startswith("job-"))
    return Census(
        num_candidates=done,
        judge_mb=read_kb("self", b"RssAnon:") / 1024,
        zygotes_mb=sum(read_kb(pid, b"RssAnon:") for pid in running) / 1024,
        descriptors=len(os.listdir("/proc/self/fd")),
        threads=threading.active_count(),
        zombies=len(own) - len(running),
        strays=strays,
        leftovers=left,
    )


def _is_zombie(pid: int) -> bool:
    return read_proc(pid, "stat").rpartition(b")")[2].split()[:1] in ([b"Z"], [])


def _summarise(censuses: list[Census], outcomes: Counter[str], seed: int, jobs: int, seconds: float) -> SoakFigures:
    warm = censuses[min(len(censuses) - 1, int(len(censuses) * _WARM_UP_SHARE)) :]
    unclean = sum(1 for one in censuses if one.zombies or one.strays or one.leftovers)
    return SoakFigures(
        seed=seed,
        jobs=jobs,
        num_candidates=censuses[-1].num_candidates,
        seconds=seconds,
        outcomes=dict(outcomes),
        first=warm[0],
        last=warm[-1],
        max_judge_mb=max(one.judge_mb for one in warm),
        max_zygotes_mb=max(one.zygotes_mb for one in warm),
        max_descriptors=max(one.descriptors for one in warm),
        judge_growth_mb_per_1000=_slope(warm) * 1000,
        unclean_rounds=unclean,
    )


def _slope(censuses: list[Census]) -> float:
    """Return MB per candidate, by least squares."""
    numbers = [one.num_candidates for one in censuses]
    return linear_regression(numbers, [one.judge_mb for one in censuses]).slope if len({*numbers}) > 1 else 0.0
