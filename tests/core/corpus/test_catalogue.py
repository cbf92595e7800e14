"""Tasks by id, and the splits."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.corpus import ALL_FAMILIES, FAMILIES, Split, examples, families, is_corpus_id, render, split_of
from tritonrl.core.corpus.builder.operations import (
    ACTIVATIONS,
    BIAS,
    GAIN,
    RELU,
    SCALE,
    SHIFT,
    SUBTRACT,
    Applied,
    Operation,
)
from tritonrl.core.corpus.builder.spec import Spec
from tritonrl.core.corpus.catalogue import _draw_spec, _split
from tritonrl.core.corpus.novelty import find_kin
from tritonrl.core.task import Example

PAIRS = [(level, family) for level, names in FAMILIES.items() for family in names]
SECOND = [(level, family) for level, names in families(2).items() for family in names]
task_ids = st.builds(
    lambda pair, seed: f"l{pair[0]}-{pair[1]}-{seed:016x}", st.sampled_from(PAIRS), st.integers(0, 2**64 - 1)
)


def take(split: Split, level: int, seed: int, count: int) -> list[Example]:
    return list(islice(examples(split, level, seed), count))


def test_the_parts_are_all_families_and_share_none() -> None:
    """Every family belongs to one part, and the first part is what a stream takes by itself."""
    for level, names in ALL_FAMILIES.items():
        assert sorted(names) == sorted((*families(1)[level], *families(2)[level]))
        assert len(set(names)) == len(names)
        assert families(1)[level] == FAMILIES[level]


@given(task_ids)
def test_half_precision_contracts_are_cast(task_id: str) -> None:
    """Where the contract lists float16 every element that is loaded becomes float32, and elsewhere none does."""
    example = render(task_id)
    loads, casts = example.solution.count("tl.load("), example.solution.count(".to(tl.float32)")
    assert casts == (loads if "float16" in example.task.dtypes else 0)


@pytest.mark.parametrize("level", [1, 2])
def test_the_stream_is_deterministic_balanced_and_distinct(level: int) -> None:
    """The same seed gives the same stream, families take turns, and no task comes twice."""
    drawn = take(Split.TRAIN, level, 7, 260)
    assert drawn == take(Split.TRAIN, level, 7, 260)
    counts = Counter(example.task.family for example in drawn)
    assert set(counts) == set(FAMILIES[level])
    assert max(counts.values()) - min(counts.values()) <= 1
    identities = {_draw_spec(e.task.family, int(e.task.task_id[-16:], 16)).identity for e in drawn}
    assert len(identities) == len(drawn)
    assert drawn[:20] != take(Split.TRAIN, level, 8, 20)


@pytest.mark.parametrize("split", list(Split))
@pytest.mark.parametrize("level", [1, 2])
def test_every_split_has_every_family_and_only_its_own_tasks(split: Split, level: int) -> None:
    """A stream stays in its split, by the task as by its id, and covers the level's families."""
    drawn = take(split, level, 3, 4 * len(FAMILIES[level]))
    assert {split_of(example.task) for example in drawn} == {split}
    assert {split_of(render(example.task.task_id).task) for example in drawn} == {split}
    assert {example.task.family for example in drawn} == set(FAMILIES[level])


def test_held_out_compositions_are_in_no_training_task() -> None:
    """At Level 2 a chain of operations belongs to one split, whatever its numbers and sizes."""
    chains: dict[Split, set[object]] = {}
    for split in Split:
        drawn = take(split, 2, 5, 600)
        chains[split] = {_draw_spec(e.task.family, int(e.task.task_id[-16:], 16)).composition for e in drawn}
    assert not chains[Split.TRAIN] & chains[Split.HELDOUT]
    assert not chains[Split.TRAIN] & chains[Split.VALIDATION]
    assert not chains[Split.VALIDATION] & chains[Split.HELDOUT]


def test_held_out_compositions_of_the_second_part_are_in_no_training_task() -> None:
    """At Level 2 a chain of operations belongs to one split, whatever its numbers and sizes."""
    names = families(2)[2]
    chains = {
        split: {
            _draw_spec(e.task.family, int(e.task.task_id[-16:], 16)).composition
            for e in islice(examples(split, 2, 5, names), 60)
        }
        for split in Split
    }
    assert not chains[Split.TRAIN] & chains[Split.HELDOUT]
    assert not chains[Split.TRAIN] & chains[Split.VALIDATION]
    assert not chains[Split.VALIDATION] & chains[Split.HELDOUT]


@pytest.mark.parametrize(("level", "name"), SECOND)
def test_a_family_is_deterministic_distinct_and_split(level: int, name: str) -> None:
    """Every split of a family has tasks of its own, no task comes twice, and several styles turn up."""
    seen: set[object] = set()
    styles: Counter[str] = Counter()
    for split, count in ((Split.TRAIN, 40), (Split.VALIDATION, 4), (Split.HELDOUT, 4)):
        drawn = list(islice(examples(split, level, 7, [name]), count))
        assert drawn == list(islice(examples(split, level, 7, [name]), count))
        assert {split_of(example.task) for example in drawn} == {split}
        identities = [_draw_spec(name, int(example.task.task_id[-16:], 16)).identity for example in drawn]
        assert not seen & set(identities)
        seen |= set(identities)
        styles.update(example.style for example in drawn)
    assert len(seen) == 48
    assert len(styles) >= 2


def test_splits_have_about_their_shares() -> None:
    """Nine tenths of the tasks are for training, and a twentieth each for validation and the held-out test."""
    counts = Counter(_split(_draw_spec("softmax", seed * 7919)) for seed in range(4000))
    assert 0.88 < counts[Split.TRAIN] / 4000 < 0.92
    assert 0.03 < counts[Split.HELDOUT] / 4000 < 0.07


def test_styles_vary_within_a_family() -> None:
    """A family is written in several styles, each of which turns up often."""
    for level, family in PAIRS:
        drawn = islice(examples(Split.TRAIN, level, 1, [family]), 120)
        counts = Counter(example.style for example in drawn)
        assert len(counts) >= 4, family


@pytest.mark.parametrize(
    "task_id", ["l1-softmax-12", "l2-softmax-00c0ffee12345678", "l1-poem-00c0ffee12345678", "x", ""]
)
def test_other_ids_are_refused(task_id: str) -> None:
    """An id of another suite is an error that quotes it."""
    assert not is_corpus_id(task_id)
    with pytest.raises(ValueError, match=task_id or "''"):
        render(task_id)


def test_unknown_families_are_refused() -> None:
    """Asking for a family that the level lacks is an error that names it."""
    with pytest.raises(ValueError, match="poem"):
        next(examples(Split.TRAIN, 1, 0, ["poem"]))
    with pytest.raises(ValueError, match="level 2"):
        next(examples(Split.TRAIN, 2, 0, ["softmax"]))


def _kin(
    producer: str, *chain: Operation, family: str = "norm_chain", affine: int = 0
) -> frozenset[tuple[object, ...]]:
    applied = tuple(Applied(operation=operation) for operation in chain)
    options = (("affine", affine),)
    return find_kin(Spec(level=2, family=family, producer=producer, sizes=(), chain=applied, options=options))


def test_a_norm_with_weights_is_kin_of_one_with_a_gain_and_a_bias() -> None:
    """The weights of a layer norm, or of a batch norm in evaluation, may as well be the first steps of its chain."""
    for family, producer in (("norm_chain", "layer_norm"), ("batch_norm_chain", "running")):
        with_weights, without = (family, producer, "relu"), (family, producer, "gain", "bias", "relu")
        assert without in _kin(producer, RELU, family=family, affine=1)
        assert with_weights in _kin(producer, GAIN, BIAS, RELU, family=family)
        assert with_weights not in _kin(producer, BIAS, GAIN, RELU, family=family)
    assert len(_kin("batch", RELU, family="batch_norm_chain", affine=1)) == 1


def test_what_is_subtracted_is_a_part_of_a_sum() -> None:
    """A bias and a subtraction may change places, for their order does not count."""
    tanh = next(operation for operation in ACTIVATIONS if operation.name == "tanh")
    found = _kin("layer_norm", tanh, BIAS, SUBTRACT, SHIFT)
    assert ("norm_chain", "layer_norm", "tanh", "subtract", "shift", "bias") in found
    assert ("norm_chain", "layer_norm", "subtract", "tanh", "bias", "shift") not in found


def test_a_scale_before_a_square_is_one_after_it() -> None:
    """A square of a multiple is a multiple of the square."""
    square = next(operation for operation in ACTIVATIONS if operation.name == "square")
    assert ("norm_chain", "layer_norm", "square", "bias") not in _kin("layer_norm", SCALE, square, BIAS)
    assert ("norm_chain", "layer_norm", "square", "scale", "bias") in _kin("layer_norm", SCALE, square, BIAS)
