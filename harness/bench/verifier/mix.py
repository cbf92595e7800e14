"""The fixed mix that `tritonrl bench verify` runs: teachers, spoilt in the ways that a policy spoils its answers.

A task has ten candidates, like one group of samples in reinforcement learning: four fail the AST stage, two fail to
compile, two compute something wrong and two are right. Failures of the AST stage take turns through `SPOILS`. The
others are found by trying: the corpus' plausible mistakes (`core.corpus.corrupt`) are drawn with fixed seeds until each
kind has its number, so what a candidate is called is what the verifier found, and a change of the corpus or of the
verifier cannot turn the mix into another one unnoticed.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from enum import StrEnum

from attrs import frozen

from ....core.corpus import corrupt
from ....core.outcome import Stage
from ....core.task import Example, Task
from ....core.verdict import Verdict

COMPILER_SPOIL = "hands the work to torch.compile"
"""The one spoil that costs an exhaustive verifier seconds: each fresh process imports a compiler."""
_NUM_AST_FAILURES = 4
_NUM_OTHERS = 2
_MAX_DRAWS = 300

Spoil = Callable[[Example, random.Random], str]


class Kind(StrEnum):
    AST_FAILURE = "fails the AST stage"
    COMPILE_FAILURE = "fails to compile"
    WRONG = "computes something wrong"
    CORRECT = "is right"


@frozen(kw_only=True)
class Labelled:
    """A candidate of the mix, what must become of it, and what was done to the teacher."""

    task: Task
    source: str
    kind: Kind
    spoil: str


def kind_of(verdict: Verdict) -> Kind:
    if verdict.correct:
        return Kind.CORRECT
    kinds = {Stage.AST: Kind.AST_FAILURE, Stage.COMPILE: Kind.COMPILE_FAILURE}
    return kinds.get(verdict.reached, Kind.WRONG)


def _cut_off(example: Example, rng: random.Random) -> str:
    text = example.solution
    return text[: rng.randrange(len(text) // 3, len(text) - 40)].rstrip() + " ("


def _import_more(example: Example, _: random.Random) -> str:
    return "import numpy as np\n" + example.solution


def _forget_decorator(example: Example, _: random.Random) -> str:
    return example.solution.replace("@triton.jit\n", "")


def _append_benchmark(example: Example, _: random.Random) -> str:
    script = "if __name__ == '__main__':\n    print(triton.testing.do_bench(lambda: ModelNew()))\n"
    return f"{example.solution.rstrip()}\n\n\n{script}"


def _stay_with_pytorch(example: Example, _: random.Random) -> str:
    return re.sub(r"\bModel\b", "ModelNew", example.task.source)


def _misname_model(example: Example, _: random.Random) -> str:
    return re.sub(r"\bModelNew\b", "Model", example.solution)


def _hand_over(example: Example, _: random.Random) -> str:
    return f"{example.solution.rstrip()}\n\n\nModelNew.forward = torch.compile(ModelNew.forward)\n"


SPOILS: dict[str, Spoil] = {
    "is cut off by the limit of tokens": _cut_off,
    "imports what it does not need": _import_more,
    "forgets the decorator": _forget_decorator,
    "brings a benchmark along": _append_benchmark,
    "is PyTorch alone": _stay_with_pytorch,
    "calls its class Model": _misname_model,
    COMPILER_SPOIL: _hand_over,
}
"""The ways to fail the AST stage."""


def restyle(solution: str) -> str:
    """Return the same program in other words."""
    return re.sub(r"\bpid\b", "program", re.sub(r"\bBLOCK", "TILE", f"# another sample\n{solution}"))


def draw_candidates(example: Example, position: int, seed: int, judge: Callable[[str], Verdict]) -> Iterator[Labelled]:
    """Draw the ten candidates of the task at `position` in the mix; `judge` says what a mistake leads to.

    Raises ValueError where too few mistakes are of the kinds wanted.
    """
    rng = random.Random(f"{seed}:{example.task.task_id}")
    task, solution = example.task, example.solution
    for number in range(_NUM_AST_FAILURES):
        spoil = list(SPOILS)[(position * _NUM_AST_FAILURES + number) % len(SPOILS)]
        yield Labelled(task=task, source=SPOILS[spoil](example, rng), kind=Kind.AST_FAILURE, spoil=spoil)
    yield Labelled(task=task, source=solution, kind=Kind.CORRECT, spoil="is the teacher")
    yield Labelled(task=task, source=restyle(solution), kind=Kind.CORRECT, spoil="is the teacher in other words")
    missing = dict.fromkeys((Kind.COMPILE_FAILURE, Kind.WRONG), _NUM_OTHERS)
    seen: set[str] = set()
    for _ in range(_MAX_DRAWS):
        if not any(missing.values()):
            return
        source = corrupt(solution, rng)
        if source in seen:
            continue
        seen.add(source)
        kind = kind_of(judge(source))
        if missing.get(kind, 0):
            missing[kind] -= 1
            yield Labelled(task=task, source=source, kind=kind, spoil="has a plausible mistake")
    raise ValueError(f"{task.task_id}: {_MAX_DRAWS} mistakes, and not enough of the kinds {', '.join(missing)}")
