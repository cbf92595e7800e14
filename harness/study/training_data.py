"""What a supervised start trains on: teachers' pairs of the corpus, or pairs from files, and what was left out of them.

`sft.data` names files; without it the pairs are teachers'. Both leave out what is longer than the policy's context, and
with `against` what equals a task of that suite. All of it is a function of the configuration, the seed's root, the
files' rows and the policy's context.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from attrs import evolve, frozen

from ...core.config import Config, merge
from ...core.seeds import derive
from ...core.text.prompts import assistant_message, user_message
from ..datasets.pairs import Fits, Flaw, choose_pairs, identify_pairs, open_pairs
from ..errors import UsageError
from .contamination import Admission, comparing, identify_against
from .task_draws import permutation, supervised_examples, taught_suite


@frozen(kw_only=True)
class TrainingData:
    """Pairs in the order of training, and their story: `source`, what was looked at, what was left out and why."""

    pairs: tuple[tuple[str, str], ...]
    source: str
    num_rows: int | None
    num_seen: int
    left_out: tuple[tuple[Flaw, int], ...]
    not_compared: tuple[str, ...] = ()
    against: str = ""
    removed: tuple[dict[str, Any], ...] = ()
    """What equals a task of the suite `against`: by family and the suite's task, how often."""

    def plain(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "num_pairs": len(self.pairs),
            "num_rows": self.num_rows,
            "num_seen": self.num_seen,
            "left_out": {flaw.value: number for flaw, number in self.left_out},
            "not_compared": list(self.not_compared),
            **({"against": self.against, "removed": list(self.removed)} if self.against else {}),
        }


def identify_training(config: Config) -> dict[str, str]:
    """What `sft.data` and `against` name, by content and where they are set; raises UsageError where it is nothing."""
    found = {}
    if config.sft.data:
        found["files"] = identify_pairs(config.sft.data)
    against = identify_against(config)
    if against is not None:
        found["against"] = against
    return found


def require_pairs(config: Config, fits: Fits, admission: Admission | None, jobs: int = 1) -> None:
    """Raise UsageError where training would find no pair; whatever the seed, it looks no further than the first."""
    draw_training_data(merge({"sft": {"num_pairs": 1}}, config), 0, fits, admission, jobs)


def draw_training_data(
    config: Config,
    root: int,
    fits: Fits,
    admission: Admission | None,
    jobs: int = 1,
    on_seen: Callable[[int], None] | None = None,
) -> TrainingData:
    """The pairs of the supervised start whose streams derive from `root`; raises UsageError where there is none."""
    untraced = () if admission is None else admission.untraced
    num_before = 0 if admission is None else len(admission.refused)
    if not config.sft.data:
        admits = None if admission is None else admission.admits
        examples = list(supervised_examples(config, root, admits, jobs))
        taught = [(user_message(example.task), assistant_message(example.solution)) for example in examples]
        pairs = tuple(pair for pair, does_fit in zip(taught, fits(taught), strict=True) if does_fit)
        num_refused = 0 if admission is None else len(admission.refused) - num_before
        flaws = ((Flaw.SHARED, num_refused), (Flaw.TOO_LONG, len(taught) - len(pairs)))
        found = TrainingData(
            pairs=pairs,
            source=f"teachers of {taught_suite(config)}",
            num_rows=None,
            num_seen=len(taught) + num_refused,
            left_out=tuple((flaw, number) for flaw, number in flaws if number),
            not_compared=untraced,
        )
    else:
        source = open_pairs(config.sft.data)
        order = permutation(derive(root, "rows"), len(source.rows))
        with comparing(admission, jobs) as compare:
            chosen = choose_pairs(source, config.sft.num_pairs, order, fits, compare, on_seen)
        found = TrainingData(
            pairs=chosen.pairs,
            source=config.sft.data,
            num_rows=chosen.num_rows,
            num_seen=chosen.num_seen,
            left_out=chosen.left_out,
            not_compared=untraced,
        )
    if not found.pairs:
        raise UsageError(f"{found.source}: no pair to train on; {describe(found.plain())}")
    if admission is not None:
        found = evolve(found, against=admission.against, removed=tuple(admission.count_removed(num_before)))
    shuffled = permutation(derive(root, "order"), len(found.pairs))
    return evolve(found, pairs=tuple(found.pairs[index] for index in shuffled))


def describe(plain: dict[str, Any]) -> str:
    rows = "" if plain["num_rows"] is None else f" of {plain['num_rows']}"
    text = f"{plain['num_pairs']} pairs of {plain['source']}; {plain['num_seen']}{rows} looked at"
    left_out = [f"{number} for {reason}" for reason, number in plain["left_out"].items()]
    text += f"; left out: {', '.join(left_out)}" if left_out else "; none left out"
    text += _describe_removed(plain)
    unknown = plain["not_compared"]
    return text + (f"; not compared with {len(unknown)} tasks that could not be traced" if unknown else "")


def _describe_removed(plain: dict[str, Any], most: int = 5) -> str:
    """What equals a task of the suite `against`, by family, with the task that most of it equals."""
    removed = plain.get("removed", [])
    numbers: Counter[str] = Counter()
    for entry in removed:
        numbers[entry["family"]] += entry["number"]
    if not numbers:
        return ""
    first = {family: next(e["equals"] for e in removed if e["family"] == family) for family in numbers}
    told = [f"{family} {number} (as {first[family]})" for family, number in numbers.most_common(most)]
    more = f" and {len(numbers) - most} more families" if len(numbers) > most else ""
    return f"; in {plain['against']} as well: {', '.join(told)}{more}"
