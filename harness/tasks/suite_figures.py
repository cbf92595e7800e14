"""What a suite is made of: tasks by family, how many differ, and how many tokens a model needs for them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from attrs import frozen

from ...core.corpus import SUITES
from ...core.task import Task
from ...core.text.prompts import assistant_message, user_message
from ..errors import UsageError
from .suites import corpus_tasks, load_suite

_BATCH = 500

Encode = Callable[[Sequence[str], Sequence[str]], list[tuple[int, int]]]
"""Tokens of each prompt and of the answer beside it (0 for an empty one)."""


@frozen(kw_only=True)
class Lengths:
    """Tokens: the median, what 90% and 99% do not exceed, and the most."""

    median: int
    p90: int
    p99: int
    longest: int


@frozen(kw_only=True)
class FamilyFigures:
    """One family: tasks, distinct pairs, and tokens of prompt and answer together."""

    level: int
    family: str
    num_tasks: int
    num_pairs: int
    tokens: Lengths


@frozen(kw_only=True)
class SuiteFigures:
    """A suite; a pair is a prompt with a teacher's answer, where the suite has teachers."""

    suite: str
    num_tasks: int
    num_pairs: int
    tokenizer: str
    prompt: Lengths
    answer: Lengths | None
    together: Lengths
    families: tuple[FamilyFigures, ...]
    num_skipped: int = 0


def open_tokenizer(name: str) -> Encode:
    """How a policy counts: its chat template's tokens, and the answer's with its end; raises UsageError."""
    from transformers import AutoTokenizer
    from transformers.utils.logging import set_verbosity_error

    from ..policy.model.load import find_weights

    set_verbosity_error()  # it warns of pairs that are longer than the model's context, which are counted here
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(find_weights(name)[0])
    except UsageError as error:
        raise UsageError(f"--tokenizer {name}: {error}") from None
    except (OSError, ValueError, ImportError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"--tokenizer {name}: cannot be loaded: {reason}") from None

    def encode(prompts: Sequence[str], answers: Sequence[str]) -> list[tuple[int, int]]:
        shown = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
            )
            for prompt in prompts
        ]
        asked = tokenizer(shown, add_special_tokens=False)["input_ids"]
        answered = tokenizer(list(answers), add_special_tokens=False)["input_ids"]
        return [
            (len(prompt), len(answer) + 1 if text else 0)
            for prompt, answer, text in zip(asked, answered, answers, strict=True)
        ]

    return encode


def measure_suite(
    name: str,
    num: int | None,
    seed: int,
    encode: Encode,
    tokenizer: str = "",
    on_done: Callable[[int], None] | None = None,
) -> SuiteFigures:
    """The figures of `num` tasks a level of a suite; `full` stands for `full:train`. Raises UsageError."""
    suite = f"{name}:train" if name in SUITES else name
    num_skipped = 0
    drawn: Iterable[tuple[Task, str | None]]
    if suite.partition(":")[0] in SUITES:
        drawn = corpus_tasks(suite, seed, num or 10)
    else:
        loaded = load_suite(suite, num=num, seed=seed)
        num_skipped = len(loaded.skipped)
        drawn = [(entry.shown, entry.solution) for entry in loaded.tasks]
    places: list[tuple[int, str]] = []
    lengths: list[tuple[int, int]] = []
    digests: list[bytes] = []
    source = iter(drawn)
    while batch := list(islice(source, _BATCH)):
        prompts = [user_message(task) for task, _ in batch]
        answers = ["" if solution is None else assistant_message(solution) for _, solution in batch]
        lengths += encode(prompts, answers)
        places += [(task.level, task.family) for task, _ in batch]
        digests += [_digest(*pair) for pair in zip(prompts, answers, strict=True)]
        if on_done is not None:
            on_done(len(places))
    if not places:
        raise UsageError(f"{name}: no task there")
    return _summarise(suite, tokenizer, places, np.array(lengths), digests, num_skipped)


def _digest(prompt: str, answer: str) -> bytes:
    return hashlib.blake2b(f"{len(prompt)}:{prompt}{answer}".encode(), digest_size=16).digest()


def _summarise(
    suite: str,
    tokenizer: str,
    places: Sequence[tuple[int, str]],
    lengths: Any,
    digests: Sequence[bytes],
    num_skipped: int,
) -> SuiteFigures:
    distinct = Counter(dict(zip(digests, places, strict=True)).values())
    together = lengths.sum(axis=1)
    families = []
    for place, number in sorted(Counter(places).items()):
        own = np.array([other == place for other in places])
        families.append(
            FamilyFigures(
                level=place[0],
                family=place[1],
                num_tasks=number,
                num_pairs=distinct[place],
                tokens=_lengths(together[own]),
            )
        )
    return SuiteFigures(
        suite=suite,
        num_tasks=len(places),
        num_pairs=distinct.total(),
        tokenizer=tokenizer,
        prompt=_lengths(lengths[:, 0]),
        answer=_lengths(lengths[:, 1]) if lengths[:, 1].any() else None,
        together=_lengths(together),
        families=tuple(families),
        num_skipped=num_skipped,
    )


def _lengths(counts: Any) -> Lengths:
    median, p90, p99 = (int(value) for value in np.quantile(counts, (0.5, 0.9, 0.99), method="higher"))
    return Lengths(median=median, p90=p90, p99=p99, longest=int(counts.max()))


def render_figures(figures: SuiteFigures) -> list[str]:
    head = f"{'':26} {'tasks':>7} {'pairs':>7} {'median':>7} {'90%':>6} {'99%':>6} {'most':>6}"
    lines = [f"{figures.suite}: {figures.num_tasks} tasks, {figures.num_pairs} distinct pairs"]
    lines[0] += f", {figures.num_skipped} skipped" if figures.num_skipped else ""
    lines += [f"tokens of {figures.tokenizer}", head]
    rows: list[tuple[str, int | None, int | None, Lengths]] = [
        ("prompt", None, None, figures.prompt),
        *([("answer", None, None, figures.answer)] if figures.answer else []),
        ("together", figures.num_tasks, figures.num_pairs, figures.together),
        *((f"l{own.level} {own.family}", own.num_tasks, own.num_pairs, own.tokens) for own in figures.families),
    ]
    for name, tasks, pairs, tokens in rows:
        counts = f"{'' if tasks is None else tasks:>7} {'' if pairs is None else pairs:>7}"
        lines.append(f"{name:26} {counts} {tokens.median:>7} {tokens.p90:>6} {tokens.p99:>6} {tokens.longest:>6}")
    return lines
