"""Effects of the extensions, recovered from planted ones."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.core.recipe.extensions import ALL_CELLS, LETTERS, Extensions
from tritonrl.core.statistics.factorial import TERMS, Response, analyse

planted = st.fixed_dictionaries({name: st.floats(-1.0, 1.0) for name in TERMS})
HALF = tuple(cell for cell in ALL_CELLS if sum(cell.flags) % 2 == 0)
ONE_AT_A_TIME = tuple(cell for cell in ALL_CELLS if sum(cell.flags) <= 1)


def respond(cell: Extensions, effects: dict[str, float]) -> float:
    """The response of a cell that has exactly these effects around 0.5."""
    total = 0.5
    for name, effect in effects.items():
        sign = 1.0
        for letter in name:
            sign *= 1.0 if cell.flags[LETTERS.index(letter)] else -1.0
        total += sign * effect / 2
    return total


def responses(cells: tuple[Extensions, ...], effects: dict[str, float]) -> list[Response]:
    """Two seeds and two tasks whose differences all cells share."""
    return [
        Response(cell=cell, seed=seed, task=task, value=respond(cell, effects) + 0.1 * seed + 0.3 * (task == "b"))
        for cell in cells
        for seed in (1, 2)
        for task in "ab"
    ]


@settings(max_examples=30)
@given(planted)
def test_planted_effects_are_recovered(effects: dict[str, float]) -> None:
    """Without noise every effect of the full grid is exact, and what seeds and tasks share cancels."""
    analysis = analyse(responses(ALL_CELLS, effects))
    assert analysis is not None
    assert analysis.over == "seeds and tasks"
    for effect in analysis.effects:
        assert effect.estimate == pytest.approx(effects[effect.name], abs=1e-9)
        assert effect.low == pytest.approx(effect.high, abs=1e-9)


@settings(max_examples=30)
@given(planted, st.integers(0, 15))
def test_a_grid_without_one_cell_still_gives_every_effect(effects: dict[str, float], missing: int) -> None:
    """Least squares recovers the effects where a cell failed, with interactions of over two factors left out."""
    effects = {name: effect for name, effect in effects.items() if len(name) <= 2}
    cells = ALL_CELLS[:missing] + ALL_CELLS[missing + 1 :]
    analysis = analyse(responses(cells, effects))
    assert analysis is not None
    assert analysis.order == 2
    assert [analysis.effect(name).estimate for name in effects] == pytest.approx(list(effects.values()), abs=1e-9)
    assert not analysis.effect("msct").estimable


@settings(max_examples=30)
@given(planted)
def test_half_a_grid_separates_main_effects_and_names_the_aliases(effects: dict[str, float]) -> None:
    """In the half fraction main effects are clear of interactions of two, which come in inseparable pairs."""
    effects = {name: effect for name, effect in effects.items() if len(name) <= 2}
    analysis = analyse(responses(HALF, effects))
    assert analysis is not None
    assert analysis.order == 2
    assert [analysis.effect(letter).estimate for letter in LETTERS] == pytest.approx(
        [effects[letter] for letter in LETTERS], abs=1e-9
    )
    assert analysis.effect("ms").confounded_with == ("ct",)
    assert not any(analysis.effect(name).estimable for name in TERMS[4:])


def test_one_at_a_time_assumes_no_interactions_and_says_so() -> None:
    """Five cells give the four main effects of an additive world, and no interaction."""
    effects = {"m": 0.2, "s": -0.1, "c": 0.05, "t": 0.0}
    analysis = analyse(responses(ONE_AT_A_TIME, effects))
    assert analysis is not None
    assert analysis.order == 1
    assert [analysis.effect(letter).estimate for letter in LETTERS] == pytest.approx(list(effects.values()), abs=1e-9)
    assert not any(analysis.effect(name).estimable for name in TERMS[4:])


def test_an_extension_that_never_varies_has_no_effect_to_report() -> None:
    """With two cells only the factor that differs is estimated."""
    analysis = analyse(responses((ALL_CELLS[0], Extensions(staged=True)), {"s": 0.4}))
    assert analysis is not None
    assert analysis.effect("s").estimate == pytest.approx(0.4)
    assert [effect.name for effect in analysis.effects if effect.estimable] == ["s"]


def noisy() -> list[Response]:
    """A full grid with an effect of M and noise by cell, seed and task."""
    noise = random.Random(0)
    return [
        Response(cell=cell, seed=seed, task=str(task), value=respond(cell, {"m": 0.5}) + noise.gauss(0, 0.1))
        for cell in ALL_CELLS
        for seed in range(3)
        for task in range(5)
    ]


def test_an_interval_tells_an_effect_from_noise() -> None:
    """The planted effect is conclusive, and its interval has a width and holds the estimate."""
    analysis = analyse(noisy())
    assert analysis is not None
    effect = analysis.effect("m")
    assert effect.conclusive
    assert effect.estimate is not None
    assert effect.low is not None
    assert effect.high is not None
    assert 0.4 < effect.low < effect.estimate < effect.high < 0.6


@settings(max_examples=10)
@given(st.randoms(use_true_random=False))
def test_the_order_of_responses_makes_no_difference(shuffler: random.Random) -> None:
    """Any permutation gives the same analysis, intervals included."""
    given_order = noisy()
    shuffled = list(given_order)
    shuffler.shuffle(shuffled)
    assert analyse(shuffled) == analyse(given_order)


@given(st.floats(-10.0, 10.0))
def test_equal_responses_have_no_effects(value: float) -> None:
    """Where all cells agree every effect is zero and none is conclusive."""
    flat = [Response(cell=cell, seed=seed, value=value) for cell in ALL_CELLS for seed in (0, 1)]
    analysis = analyse(flat)
    assert analysis is not None
    assert all(effect.estimate == 0.0 and not effect.conclusive for effect in analysis.effects)


def test_what_intervals_are_over_is_said() -> None:
    """One seed leaves the tasks to be over; one number a cell leaves nothing, so there is no interval."""
    one_seed = [response for response in noisy() if response.seed == 0]
    analysis = analyse(one_seed)
    assert analysis is not None
    assert analysis.over == "tasks"
    assert {effect.p_value for effect in analysis.effects} == {None}
    assert {effect.detectable for effect in analysis.effects} == {None}
    assert not any(effect.confirmed for effect in analysis.effects)
    single = analyse([response for response in one_seed if response.task == "0"])
    assert single is not None
    assert (single.over, single.effect("m").low, single.effect("m").estimable) == ("nothing", None, True)
    assert analyse([]) is None


def test_pairs_that_a_cell_lacks_are_left_out() -> None:
    """A seed that only some cells finished does not tilt the comparison."""
    full = responses(ALL_CELLS, {"m": 0.2})
    extra = [Response(cell=ALL_CELLS[0], seed=9, task="a", value=100.0)]
    assert analyse(full + extra) == analyse(full)
