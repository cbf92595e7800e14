"""Input variants: each differs from the original in one thing, and values stay in the contract."""

from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.core.candidate import Variant
from tritonrl.core.recipe.extensions import AUDIT, VerifierSpec
from tritonrl.core.task import Profile, Task
from tritonrl.stages.transforms import change_rows, choose_places, find_places, is_mask, is_sorted, round_values, tie
from tritonrl.stages.variants import SPREAD_VARIANTS, TRAINING_VARIANTS, VARIANTS, describe, variants_of

GIVEN = (Profile.DECLARED, Profile.TINY, Profile.SMALL)
LARGE = {
    Variant.SCALE_1E5,
    Variant.OUTLIERS_1000,
    Variant.SHIFT_MINUS_2000,
    Variant.SCALE_30_SHIFT_100,
    Variant.SCALE_1E_2_SHIFT_1000,
    Variant.SCALE_1E30,
    Variant.ALL_POSITIVE_1E20,
    Variant.ALL_NEGATIVE_1E20,
    Variant.SCALE_100,
    Variant.FP16_SCALE_300,
    Variant.EXACT_PRODUCTS_16,
    Variant.INFINITY_AMONG_THEM,
    Variant.SPREAD_30,
    Variant.SPREAD_90,
    Variant.ARRANGED,
}
VALUES = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=30).map(lambda v: np.array(v, dtype=np.float64))


def test_each_specification_has_its_variants() -> None:
    """One input without extension M, five with it, and the audit alone has the hidden ones."""
    assert variants_of(VerifierSpec()) == (Variant.ORIGINAL,)
    assert variants_of(VerifierSpec(multi_input=True)) == TRAINING_VARIANTS
    # a measured timing adds the one, and the audit's second call is the other
    assert set(variants_of(AUDIT)) == set(Variant) - {Variant.TIMED, Variant.SECOND_CALL, Variant.PAST_BOUNDS}


@pytest.mark.parametrize("dtypes", [("float32",), ("float32", "float16"), ("bfloat16",)])
def test_every_variant_differs_from_the_original(dtypes: tuple[str, ...]) -> None:
    """No two variants give a candidate the same inputs."""
    values = np.random.default_rng(0).standard_normal(64)
    seen = set()
    # which differ in the order of programs, in what ran before, and in how many digits floats have
    variants = set(Variant) - {Variant.REVERSED, Variant.SECOND_CALL, Variant.SHORT_FLOATS}
    for variant in variants:
        inputs = describe(variant, dtypes)
        told = (inputs.profile, inputs.dtype, inputs.stream, inputs.integers, inputs.alike)
        seen.add((*told, inputs.transform(values).tobytes()))
        assert inputs.dtype in dtypes
    assert len(seen) == len(variants)


@pytest.mark.parametrize("shape", [(5,), (1, 7), (2, 2), (3, 4), (6, 1), (5, 9, 3)])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_equal_zeros_have_either_sign_and_each_comes_first(shape: tuple[int, ...], sign: float) -> None:
    """Wherever two slices of zeros fit beside another one, whatever the sign of the values."""
    values = sign * np.random.default_rng(0).random(shape)
    tied = tie(values, 0.5)
    assert np.array_equal(tied, np.where(tied == 0.0, 0.0, np.rint(values / 0.5) * 0.5))
    if len(shape) > 1 and shape[0] > 2:
        assert not tied[:2].any()
        assert np.signbit(tied[:2]).reshape(2, -1)[:, 0].tolist() == [True, False]
        assert all(tied[0].size == 1 or {*np.signbit(row).flat} == {True, False} for row in tied[:2])
    if len(shape) > 1 and shape[1] > 2:
        assert not tied[:, -2:].any()
        assert {*np.signbit(tied[0, -2:]).flat} == {True, False}


def test_some_variants_alone_change_sizes() -> None:
    """Larger dimensions, remainders and drawn sizes are sizes of their own; the others use what they are given."""
    own = {Variant(profile.value): profile for profile in Profile if profile not in GIVEN}
    # whose rows end within a block, or whose sums take several
    own |= dict.fromkeys((Variant.ALL_POSITIVE_1E20, Variant.ALL_NEGATIVE_1E20), Profile.LARGER)
    own |= dict.fromkeys((Variant.CANCELLING_PRODUCTS, Variant.PAST_BOUNDS), Profile.LARGER)
    own |= dict.fromkeys((Variant.SPREAD_30, Variant.SPREAD_90, Variant.SHORT_FLOATS), Profile.SMALL)
    for variant in Variant:
        assert describe(variant, ("float32",), Profile.DECLARED).profile is own.get(variant, Profile.DECLARED)


def test_hidden_values_are_moderate_where_nothing_vouches_for_more() -> None:
    """Ten thousand normal values stay below 44 in every variant that is always run, and signs are mixed where due."""
    positive = np.abs(np.random.default_rng(3).standard_normal(10_000))
    for variant in set(Variant) - LARGE:
        assert np.nanmax(np.abs(describe(variant, ("float32",)).transform(positive))) < 44.0
    assert 4_500 < (describe(Variant.HALF_NEGATED, ("float32",)).transform(positive) < 0.0).sum() < 5_500
    changed = describe(Variant.OUTLIERS, ("float32",)).transform(positive) != positive
    assert 500 < changed.sum() < 750


def test_a_peak_is_as_much_as_the_rest_of_its_row_in_an_exponential() -> None:
    """With peaks, rows beside them are multiplied or have one far above; without, every second row is multiplied."""
    values = np.random.default_rng(5).standard_normal((4, 1000))
    rows = change_rows(values, 30.0, (1,), has_peaks=True)
    assert (rows[1] == 30.0 * values[1]).all()
    assert rows[3].max() == np.sort(values[3])[-1] + 150.0
    assert np.count_nonzero(rows[3] != values[3]) == 1
    for row, at in zip(rows[::2], find_places(1000), strict=False):
        assert row.max() == row[at] > 100.0
        assert 0.9 < np.exp(np.delete(row, at) - row[at]).sum() < 1.1
    assert (rows == change_rows(values.T, 30.0, (0,), has_peaks=True).T).all()
    rows = change_rows(values, 3.0, (), has_peaks=False)
    assert (rows[::2] == 3.0 * values[::2]).all()
    assert [row.argmax() for row in rows[1::2]] == [row.argmin() for row in rows[3::-2]] == [0, 999]
    assert np.count_nonzero(rows[1::2] != values[1::2]) == 4
    assert change_rows(values[0], 3.0, (), has_peaks=False).shape == (1000,)


@pytest.mark.parametrize("length", [2, 3, 5, 12, 90, 450, 4097])
def test_few_places_lie_in_many_classes(length: int) -> None:
    """Two places have both parities, as many as a number have all of its remainders; both ends soon follow."""
    places = find_places(length)
    for number in (2, 3, 4, 5) if length > 24 else (2,):
        assert len({*(places[:number] % number)}) == number
    assert {0, length - 1} <= {*places[:9].tolist()}
    assert {*range(length)} <= {*places.tolist()} or length > 24
    assert ((places >= 0) & (places < length)).all()


def test_every_class_of_elements_has_a_largest_one() -> None:
    """The three variants raise others, and one row alone has three of them: with either parity, in each third."""
    values = np.random.default_rng(6).standard_normal((1, 9, 10))
    variants = (Variant.OUTLIERS_1000, Variant.SHIFT_MINUS_2000, Variant.SCALE_30_SHIFT_100)
    inputs = [evolve(describe(variant, ("float32",)), axes=(1, 2)) for variant in variants]
    found = {int(one.transform(values).argmax()) for one in inputs}
    assert len({place % 2 for place in found}) == 2
    assert len({place % 3 for place in found}) == 3


def test_each_few_neighbours_have_a_chosen_one() -> None:
    """So none has no chosen value, however few there are; none is chosen with either parity."""
    assert len(choose_places(3, 64, 0)) == 1
    assert (choose_places(640, 16, 1) // 16 == np.arange(40)).all()
    even, odd = (choose_places(450, 64, parity) for parity in (0, 1))
    assert len({*even}) == len({*odd}) == 8
    assert not {*even} & {*odd}


@pytest.mark.parametrize("parity", [0, 1])
def test_a_result_of_extreme_values_is_another_one(parity: int) -> None:
    """A few values of either half lie beyond all others, above or below: a maximum, a minimum or a ReLU is another."""
    values = np.random.default_rng(7).standard_normal((5, 9, 10))
    changed = describe(Variant.SECOND_CALL, ("float32",)).change_extremely(parity).transform(values)
    beyond = changed[np.abs(changed) > np.abs(values).max()]
    places = np.flatnonzero(changed != values)
    assert places.size == beyond.size in (7, 8)
    assert {*(places // 225)} == {parity}
    assert {*(places % 2)} == {parity}
    assert 3 <= (beyond > 0.0).sum() <= 4


@pytest.mark.parametrize("parity", [0, 1])
def test_blocks_of_large_values_differ_in_one_place_at_most(parity: int) -> None:
    """Where a block's beginning stands for all of it, nearly every block that changed looks as it did."""
    values = np.random.default_rng(8).standard_normal((1000, 1024))
    changed = describe(Variant.SECOND_CALL, ("float32",)).change_extremely(parity).transform(values) != values
    assert 60 <= changed.sum() <= 65
    assert changed.sum(axis=1).max() == 1


def test_rows_of_one_sign_have_their_extremes_at_their_ends() -> None:
    """Above, rows are positive, largest value first and smallest last or the reverse; below is above negated."""
    values = np.random.default_rng(4).standard_normal((3, 4, 50))
    above = describe(Variant.ALL_POSITIVE, ("float32",)).transform(values)
    rows = above.reshape(-1, 50)
    assert (rows > 0.0).all()
    assert list(rows.argmax(axis=1)) == [0, 49] * 6
    assert list(rows.argmin(axis=1)) == [49, 0] * 6
    assert (describe(Variant.ALL_NEGATIVE, ("float32",)).transform(values) == -above).all()
    assert describe(Variant.ALL_POSITIVE, ("float32",)).transform(np.array(-2.0)) == 2.0


SIZES = st.lists(st.integers(1, 2000), min_size=3, max_size=3)


@given(SIZES)
def test_remainders_are_one_past_whole_blocks_and_new(sizes: list[int]) -> None:
    """The derived size is larger than the small one's block, one past a multiple of it, and no other profile's."""
    tiny, small, larger = sizes
    task = Task(
        task_id="task",
        level=1,
        family="family",
        description="",
        source="N = 1",
        tiny=(("N", tiny),),
        small=(("N", small),),
        larger=(("N", larger),),
    )
    ((name, size),) = task.constants(Profile.REMAINDER)
    block = 2 ** (small.bit_length() - 1)
    assert name == "N"
    assert size not in sizes
    assert small < size <= small + 4 * block
    assert size % block == 1 % block


def test_precision_takes_another_dtype_where_the_contract_has_one() -> None:
    """With one dtype the values are rounded instead, and the dtype stays."""
    assert describe(Variant.PRECISION, ("float32", "float16")).dtype == "float16"
    single = describe(Variant.PRECISION, ("float32",))
    assert (single.dtype, single.rounded_through) == ("float32", "bfloat16")


@given(VALUES, st.sampled_from(["float32", "float16", "bfloat16", "float8"]))
@settings(max_examples=100)
def test_rounding_is_idempotent_and_close(values: np.ndarray, dtype: str) -> None:
    """Rounding twice is rounding once, and moves no value by more than half a unit in the last place."""
    rounded = round_values(values, dtype)
    assert np.array_equal(round_values(rounded, dtype), rounded)
    assert np.all(np.abs(rounded - values) <= np.abs(values) * 2.0**-4)


@given(VALUES)
@settings(max_examples=50)
def test_rounding_to_half_is_numpys(values: np.ndarray) -> None:
    """Within the range of normal halves, rounding through float16 is numpy's own conversion."""
    kept = values[(np.abs(values) < 6e4) & (np.abs(values) > 1e-4)]
    assert np.array_equal(round_values(kept, "float16"), kept.astype(np.float16).astype(np.float64))


@given(st.lists(st.floats(), min_size=1, max_size=50), st.sampled_from(SPREAD_VARIANTS))
def test_magnitudes_are_spread_whatever_the_inputs_hold(drawn: list[float], variant: Variant) -> None:
    """A mask's infinities, NaN and sums that overflow are inputs like others: each is a power of two off, or zero."""
    values, inputs = np.array(drawn), describe(variant, ("float32",))
    with np.errstate(all="ignore"):
        found = inputs.transform(values)
        assert np.array_equal(found, inputs.transform(values), equal_nan=True)
        moved = np.isfinite(values) & (values != 0.0) & np.isfinite(found) & (np.abs(found) > 1e-290)
        factors = np.abs(np.log2(np.abs(found[moved])) - np.log2(np.abs(values[moved])))
    assert (factors <= inputs.spread + 1e-9).all()
    assert (np.isinf(values) <= (np.isinf(found) | (found == 0.0))).all()


def test_every_second_row_has_one_sign_and_one_magnitude() -> None:
    """A maximum that begins at a large negative number, and not below all, is wrong for such a row; so is a minimum."""
    values = np.random.default_rng(5).uniform(1.0, 2.0, (64, 9))
    found = describe(Variant.SPREAD_30, ("float32",)).transform(values)
    assert (found[1::4] <= 0.0).all()
    assert (found[3::4] >= 0.0).all()
    for first in (1, 3):
        rows = [np.abs(row[row != 0.0]) for row in found[first::4]]
        assert all(row.max() < 2.0 * row.min() for row in rows)
        assert max(row.min() for row in rows) > 1e5


@given(st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=30, unique=True))
def test_rows_are_sorted_where_they_rise_from_start_to_end(drawn: list[float]) -> None:
    """Rising rows are, their reverse is not, nor are constant or short ones."""
    values = np.sort(np.array(drawn))
    assert is_sorted(values)
    assert is_sorted(np.stack([values, values]))
    assert not is_sorted(values[::-1])
    assert not is_sorted(np.full(values.shape, drawn[0]))
    assert not is_sorted(values[:3])


MASKS = st.one_of(
    st.integers(1, 9).map(lambda n: np.ones((5, n), bool)),
    st.integers(1, 99).map(lambda n: np.full((7,), n)),
    st.integers(1, 99).map(lambda n: np.array(n)),
)


@given(MASKS)
def test_masks_are_mixed_or_emptied(values: np.ndarray) -> None:
    """Each row keeps something, or some keep nothing; lengths stay within what they were."""
    mixed, emptied = (
        describe(variant, ("float32",)).transform_integers(values)
        for variant in (Variant.MASKS_MIXED, Variant.MASKS_EMPTIED)
    )
    assert is_mask(values)
    assert mixed.dtype == emptied.dtype == values.dtype
    assert np.all(emptied <= values)
    assert np.all(mixed <= values)
    rows = mixed.reshape(-1, mixed.shape[-1]) if values.dtype == bool else mixed.reshape(-1, 1)
    assert rows.any(axis=1).all()
    assert values.dtype != bool or not emptied[0].any()


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_other_integers_are_no_masks(drawn: list[int]) -> None:
    """What varies by itself, or is zero or negative, stays as it is."""
    values = np.array(drawn)
    if not is_mask(values):
        found = describe(Variant.MASKS_EMPTIED, ("float32",)).transform_integers(values)
        assert np.array_equal(found, values)
        assert len(set(drawn)) > 1 or drawn[0] <= 0


def test_a_few_values_are_nan() -> None:
    """Others in each input, so that not all operands are missing at once."""
    values = np.random.default_rng(6).standard_normal((2, 1000))
    left, right = (describe(Variant.NAN_AMONG_THEM, ("float32",)).transform(each) for each in (values, -values))
    assert 60 < np.isnan(left).sum() < 200
    assert np.array_equal(left[~np.isnan(left)], values[~np.isnan(left)])
    assert (np.isnan(left) != np.isnan(right)).any()


@given(st.lists(st.integers(-9, 9), max_size=12))
def test_integers_are_negated_or_large(drawn: list[int]) -> None:
    """Negated ones are indices from the end, large ones keep their signs, and none leaves its type."""
    values = np.array(drawn, np.int32)
    negated = describe(Variant.INTEGERS_NEGATED, ("float32",)).transform_integers(values)
    assert negated.dtype == values.dtype
    assert np.all((negated == values) | (negated == -1 - values))
    large = describe(Variant.INTEGERS_LARGE, ("float32",)).transform_integers(values)
    assert np.array_equal(np.sign(large), np.sign(values))
    repeated = describe(Variant.INTEGERS_REPEATED, ("float32",)).transform_integers(values)
    assert np.array_equal(repeated, values) if len(set(drawn)) == len(drawn) else not np.any(repeated % 2)
    for parity in (0, 1):
        before = describe(Variant.SECOND_CALL, ("float32",)).change_extremely(parity).transform_integers(values)
        assert np.array_equal(before[parity::2], repeated[parity::2])
        assert np.array_equal(before[1 - parity :: 2], values[1 - parity :: 2])
    assert not values.any() or np.max(np.abs(large.astype(np.int64))) > 1 << 30


def test_large_integers_are_close_to_each_other_too() -> None:
    """Several are within what float32 tells apart, and all of a byte's range is used."""
    draw = np.random.default_rng(3)
    large = describe(Variant.INTEGERS_LARGE, ("float32",)).transform_integers(draw.integers(0, 1000, 200, np.int32))
    at_the_end = np.unique(large[large > (1 << 31) - 5000])
    assert len(at_the_end) > 1
    assert len(np.unique(at_the_end.astype(np.float32))) < len(at_the_end)
    images = describe(Variant.INTEGERS_LARGE, ("float32",)).transform_integers(draw.integers(0, 99, 200, np.uint8))
    assert images.dtype == np.uint8
    assert images.max() > 190
    weights = draw.integers(-128, 128, 200, np.int8)
    changed = describe(Variant.INTEGERS_LARGE, ("float32",)).transform_integers(weights)
    assert changed.dtype == np.int8
    assert np.array_equal(np.sign(changed), np.sign(weights))


def test_variants_that_keep_values_are_those_without_a_change() -> None:
    """What is drawn is what they are run on, and every other one changes something."""
    values = np.random.default_rng(3).standard_normal((64, 64))
    for row in VARIANTS:
        inputs = describe(row.variant, ("float32",))
        if inputs.keeps_values:
            assert inputs.transform(values) is values
    kept = {row.variant for row in VARIANTS if describe(row.variant, ("float32",)).keeps_values}
    assert {Variant.ORIGINAL, Variant.LARGER, Variant.TWICE, Variant.DECLARED} <= kept
    assert not {Variant.SCALED, Variant.PRECISION, Variant.BEYOND, Variant.BETWEEN, Variant.ARRANGED} & kept
