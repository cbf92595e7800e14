"""The candidates on the page: which are shown, with what every judge said of them, and why the others failed.

One entry is one source for one task: samples that wrote the same are shown once, with how often. A large run has more
than a page can hold, so at most `MAX_ENTRIES` entries and `MAX_SOURCE` characters are shown: first those that training
verifier and audit disagree on, then the reasons to fail in turn, each in the order of the candidates' hashes, which is
no order of quality. Reasons are counted over all samples, shown or not.

A source travels as its text and a list of alternating numbers, the length of a run and its kind, which is a third of
the same source as HTML. The page writes the runs as text, never as markup: candidates are not trusted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl
from attrs import frozen

from ...core.corpus import has_teacher, is_corpus_id, render, render_task
from ...core.outcome import Outcome
from ..study.store import Results
from ..tables import SAMPLE_KEY

MAX_ENTRIES = 500
MAX_SOURCE = 1_500_000
"""Characters of all sources together."""

MAX_TASKS = 1_000_000
"""Characters of all tasks and teachers together."""

_LONGEST_SOURCE = 20_000
_LONGEST_MESSAGE = 500

Plain = dict[str, Any]


@frozen(kw_only=True)
class Reason:
    """How many samples ended with an outcome: in training by the cell's verifier and the audit, and held out."""

    outcome: str
    sentence: str
    training: int
    audit: int
    held_out: int


@frozen(kw_only=True)
class Shelf:
    """The candidates that the page shows, out of how many."""

    entries: tuple[Plain, ...]
    tasks: dict[str, Plain]
    """The entries' tasks by name: the reference's source and its teacher's, as far as there is room."""
    num_distinct: int
    num_samples: int
    num_disagreements: int
    reasons: tuple[Reason, ...]

    @property
    def complete(self) -> bool:
        """Whether every distinct source is shown."""
        return len(self.entries) == self.num_distinct


def gather(results: Results, max_entries: int = MAX_ENTRIES, max_source: int = MAX_SOURCE) -> Shelf:
    candidates, evaluation = results.read("candidates"), results.read("evaluation")
    messages = _audit_messages(results.read("stages"))
    entries = _entries(candidates, evaluation, messages)
    sources = dict(results.read("sources").iter_rows())
    chosen = choose(entries, sources, max_entries, max_source)
    return Shelf(
        tasks=tasks_of(chosen),
        entries=tuple(_with_source(entry, sources[entry["hash"]]) for entry in chosen),
        num_distinct=len(entries),
        num_samples=candidates.height + evaluation.height,
        num_disagreements=sum(entry["differs"] for entry in entries),
        reasons=_reasons(candidates, evaluation),
    )


def tasks_of(entries: Iterable[Plain], max_length: int = MAX_TASKS) -> dict[str, Plain]:
    """The corpus tasks of these entries, with teachers where they have one, until they are too long together."""
    found: dict[str, Plain] = {}
    room = max_length
    for name in dict.fromkeys(entry["task"] for entry in entries):
        if not is_corpus_id(name):
            continue
        try:
            source = render_task(name).source
            teacher = render(name).solution if has_teacher(name) else ""
        except ValueError:  # of another version's corpus
            continue
        room -= len(source) + len(teacher)
        if room < 0:
            break
        found[name] = {
            "source": source,
            "runs": runs(source),
            "teacher": teacher,
            "teacherRuns": runs(teacher),
        }
    return found


def _audit_messages(stages: pl.DataFrame) -> dict[tuple[str, str, int, str, int, int, int], str]:
    """What the audit said to a training sample that it refused, by the sample's place."""
    refused = stages.filter((pl.col("verifier") == "audit") & ~pl.col("passed") & pl.col("message").is_not_null())
    return {tuple(row[:-1]): row[-1] for row in refused.select(*SAMPLE_KEY, "message").iter_rows()}


def _entries(
    candidates: pl.DataFrame, evaluation: pl.DataFrame, messages: Mapping[tuple[Any, ...], str]
) -> list[Plain]:
    """One entry for each source of each task, in the order of hashes."""
    found: dict[tuple[str, str], Plain] = {}
    training: dict[tuple[str, str], dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    cells: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in candidates.iter_rows(named=True):
        key = (row["candidate"], row["task"])
        entry = found.setdefault(key, _entry(row))
        place = tuple(row[name] for name in SAMPLE_KEY)
        entry["trained"] += 1
        entry["selected"] += bool(row["selected"])
        entry["differs"] |= row["audit_correct"] not in (None, row["correct"])
        entry["rewards"] = sorted({*entry["rewards"], round(row["reward"], 3)})
        if row["audit_outcome"] is not None:
            _judge(entry, row["audit_outcome"], row["audit_correct"], messages.get(place))
        training[key][row["outcome"], _short(row["message"])].append(row["cell"])
        cells[key].add(row["cell"])
    for row in evaluation.iter_rows(named=True):
        key = (row["candidate"], row["task"])
        entry = found.setdefault(key, _entry(row))
        entry["heldOut"] += 1
        _judge(entry, row["outcome"], row["correct"], row["message"])
        speedup = row["speedup"] if row["speedup"] is not None else row["estimated_speedup"]
        entry["speedup"] = entry["speedup"] if speedup is None else round(speedup, 2)
        cells[key].add(row["cell"])
    for key, entry in found.items():
        entry["cells"] = sorted(cells[key])
        entry["training"] = [
            {"outcome": outcome, "message": message, "samples": len(names), "cells": sorted(set(names))}
            for (outcome, message), names in sorted(training[key].items())
        ]
    return [found[key] for key in sorted(found)]


def _entry(row: Mapping[str, Any]) -> Plain:
    return {
        "hash": row["candidate"],
        "task": row["task"],
        "level": row["level"],
        "family": row["family"],
        "trained": 0,
        "heldOut": 0,
        "selected": 0,
        "differs": False,
        "rewards": [],
        "audit": None,
        "speedup": None,
    }


def _judge(entry: Plain, outcome: str, correct: bool, message: str | None) -> None:
    """Keep the audit's verdict: it is one for a source and a task, null where the audit was never asked."""
    if entry["audit"] is None:
        entry["audit"] = {"outcome": outcome, "correct": correct, "message": _short(message)}


def _short(message: str | None) -> str:
    text = (message or "").strip()
    return text if len(text) <= _LONGEST_MESSAGE else text[: _LONGEST_MESSAGE - 1] + "…"


def choose(entries: Sequence[Plain], sources: Mapping[str, str], max_entries: int, max_source: int) -> list[Plain]:
    """The entries that are shown: disagreements first, then outcomes in turn, until either limit is reached."""
    kept: list[Plain] = []
    room = max_source
    # a published folder may have left sources out
    for entry in (entry for entry in _in_turn(entries) if entry["hash"] in sources):
        if len(kept) == max_entries:
            break
        room -= min(len(sources[entry["hash"]]), _LONGEST_SOURCE)
        if room < 0:
            break
        kept.append(entry)
    return kept


def _in_turn(entries: Sequence[Plain]) -> Iterable[Plain]:
    yield from (entry for entry in entries if entry["differs"])
    queues: dict[tuple[str, int], list[Plain]] = {}
    for entry in entries:
        if not entry["differs"]:
            outcome = "" if entry["audit"] is None else entry["audit"]["outcome"]
            queues.setdefault((outcome, entry["level"]), []).append(entry)
    waiting = [queues[key] for key in sorted(queues)]
    for turn in range(max(map(len, waiting), default=0)):
        yield from (queue[turn] for queue in waiting if turn < len(queue))


def _with_source(entry: Plain, source: str) -> Plain:
    text = source if len(source) <= _LONGEST_SOURCE else source[:_LONGEST_SOURCE]
    return {**entry, "source": text, "cut": len(source) - len(text), "runs": runs(text)}


def _reasons(candidates: pl.DataFrame, evaluation: pl.DataFrame) -> tuple[Reason, ...]:
    """Every outcome with its numbers of samples, most frequent first."""
    counts = [
        dict(frame[column].drop_nulls().value_counts().iter_rows())
        for frame, column in ((candidates, "outcome"), (candidates, "audit_outcome"), (evaluation, "outcome"))
    ]
    codes = sorted(
        {code for count in counts for code in count}, key=lambda code: (-sum(c.get(code, 0) for c in counts), code)
    )
    return tuple(
        Reason(
            outcome=code,
            sentence=Outcome.from_code(code).value,
            training=counts[0].get(code, 0),
            audit=counts[1].get(code, 0),
            held_out=counts[2].get(code, 0),
        )
        for code in codes
    )


KINDS = ("plain", "keyword", "string", "number", "comment", "name")
"""What a run can be; the page has a class of its style sheet for each but the first."""


def runs(source: str) -> list[int]:
    """Lengths and kinds, in turn, of the runs that make up the source."""
    from pygments.lexers.python import PythonLexer

    found: list[int] = []
    # unprocessed: what Pygments tidies away first (a byte order mark, carriage returns) would shift all that follows
    for _, kind, text in PythonLexer().get_tokens_unprocessed(source):
        number = KINDS.index(_kind(kind))
        # blanks take the colour of what stands before them: fewer runs, same picture
        if found and (found[-1] == number or not text.strip()):
            found[-2] += len(text)
        else:
            found += [len(text), number]
    return found


def _kind(token: Any) -> str:
    from pygments.token import Comment, Keyword, Name, Number, Operator, String

    if token in Keyword or token in Operator.Word:
        return "keyword"
    if token in String:
        return "string"
    if token in Number:
        return "number"
    if token in Comment:
        return "comment"
    if token in Name.Function or token in Name.Class or token in Name.Decorator:
        return "name"
    return "plain"
