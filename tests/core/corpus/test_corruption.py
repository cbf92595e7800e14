"""Plausible mistakes."""

from __future__ import annotations

import ast
import difflib
import random
from itertools import islice

import pytest
from tritonrl.core.corpus import Split, corrupt, examples

EXAMPLES = [example for level in (1, 2) for example in islice(examples(Split.TRAIN, level, 2), 150)]


def test_a_mistake_changes_the_text_a_little() -> None:
    """The text differs from the teacher's, in at most one line."""
    rng = random.Random(0)
    for example in EXAMPLES:
        corrupted = corrupt(example.solution, rng)
        changes = [
            line
            for line in difflib.ndiff(example.solution.splitlines(), corrupted.splitlines())
            if line[:2] in ("- ", "+ ")
        ]
        assert 1 <= len(changes) <= 2, changes


def test_mistakes_are_the_same_for_the_same_seed() -> None:
    """The stream of mistakes depends on the generator alone."""
    first = [corrupt(example.solution, random.Random(4)) for example in EXAMPLES[:50]]
    assert first == [corrupt(example.solution, random.Random(4)) for example in EXAMPLES[:50]]


def test_mistakes_are_of_many_kinds_and_most_still_parse() -> None:
    """One text gets many different mistakes, and nine in ten of them are Python still."""
    rng = random.Random(1)
    variants = {corrupt(EXAMPLES[200].solution, rng) for _ in range(300)}
    assert len(variants) > 60

    def parses(text: str) -> bool:
        try:
            ast.parse(text)
        except SyntaxError:
            return False
        return True

    assert sum(map(parses, variants)) > 0.9 * len(variants)


def test_a_text_with_no_place_for_a_mistake_is_refused() -> None:
    """Nothing is returned unchanged."""
    with pytest.raises(ValueError, match="no place"):
        corrupt("hello", random.Random(0))
