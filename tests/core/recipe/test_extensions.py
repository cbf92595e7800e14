"""Extensions, the cells that they span, and what variations change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.config import RewardConfig
from tritonrl.core.recipe.extensions import (
    ALL_CELLS,
    CONTROLS,
    GRID_CELLS,
    LETTERS,
    NOISE_SWEEP,
    STAGING_CONTROLS,
    CellSpec,
    Extensions,
    RewardSpec,
    Variation,
    VerifierSpec,
    parse_cells,
)
from tritonrl.core.recipe.reward import combine, noise_factor, reward_of, with_noise
from tritonrl.core.seeds import derive
from tritonrl.core.verdict import Verdict

from .test_reward import verdict, verdicts

specs = st.builds(CellSpec, extensions=st.sampled_from(ALL_CELLS), variation=st.none() | st.sampled_from(Variation))
CONFIG = RewardConfig()
CORRECT = (True,) * 4
cells = st.builds(
    Extensions, multi_input=st.booleans(), staged=st.booleans(), curriculum=st.booleans(), timing=st.booleans()
)


@given(cells)
def test_a_cell_is_read_back_from_its_letters_in_any_order(cell: Extensions) -> None:
    """Name and cell are one to one, whatever the order and case of the letters."""
    assert Extensions.parse(str(cell)) == cell
    if cell.flags != (False,) * 4:
        assert Extensions.parse(str(cell)[::-1].upper()) == cell


def test_the_full_grid_has_each_cell_once() -> None:
    """Sixteen distinct cells, the baseline first and the full recipe last."""
    assert len(set(ALL_CELLS)) == len(ALL_CELLS) == 16
    assert (str(ALL_CELLS[0]), str(ALL_CELLS[-1])) == ("none", LETTERS)


@pytest.mark.parametrize("text", ["x", "mm", "msctm", "m s"])
def test_a_wrong_name_is_refused(text: str) -> None:
    """Unknown and repeated letters are errors."""
    with pytest.raises(ValueError, match="extension"):
        Extensions.parse(text)


@given(cells)
def test_the_curriculum_is_no_matter_of_the_verifier(cell: Extensions) -> None:
    """The training verifier follows M, S and T, and never sees the hidden variants."""
    spec = VerifierSpec.for_training(cell)
    assert (spec.multi_input, spec.stop_early, spec.calibrated) == (cell.multi_input, cell.staged, cell.timing)
    assert not spec.hidden


@given(specs)
def test_a_cell_is_read_back_from_its_name(spec: CellSpec) -> None:
    """Name and cell are one to one, in any case."""
    assert CellSpec.parse(str(spec)) == spec
    assert CellSpec.parse(str(spec).upper()) == spec


@pytest.mark.parametrize("text", ["m+", "m+cv", "m+cv5+binary", "+", "+uniform ms", "x+cv5"])
def test_a_wrong_variation_is_refused(text: str) -> None:
    """Unknown, empty and doubled variations are errors, as wrong letters are."""
    with pytest.raises(ValueError, match=r"variation|extension"):
        CellSpec.parse(text)


@pytest.mark.parametrize(("text", "meant"), [("ful", "full"), ("none,contrls", "controls"), ("c+binry", "binary")])
def test_a_mistyped_name_is_recognised(text: str, meant: str) -> None:
    """The error about a grid's or a variation's name says which one is close."""
    with pytest.raises(ValueError, match=rf"\(did you mean {meant}\?\)"):
        parse_cells(text)


def test_the_sweep_differs_in_timing_alone() -> None:
    """The runs of the noise sweep share every extension but T, and inject 5, 15 and 30% or nothing."""
    assert {cell.extensions.flags[:3] for cell in NOISE_SWEEP} == {(False, False, False)}
    assert [cell.noise_cv for cell in NOISE_SWEEP] == [None, None, 0.05, 0.15, 0.30]
    assert set(NOISE_SWEEP[:2]) < set(GRID_CELLS)
    assert not {*CONTROLS, *STAGING_CONTROLS} & set(GRID_CELLS)


@given(verdicts, specs)
def test_a_cell_of_the_grid_has_the_reward_of_its_extensions(given_verdict: Verdict, spec: CellSpec) -> None:
    """Only the two controls of the reward have a reward of their own."""
    if spec.variation not in (Variation.UNIFORM, Variation.BINARY):
        partial_credit = spec.extensions.staged or spec.variation is Variation.PARTIAL_CREDIT
        expected = combine(given_verdict, RewardSpec(partial_credit=partial_credit), CONFIG)
        assert reward_of(given_verdict, spec, CONFIG) == expected


def test_the_halves_of_extension_s_are_switched_together_and_alone() -> None:
    """S stops early and gives partial credit; each control has one of the two, and nothing else of S."""
    halves = {
        name: (CellSpec.parse(name).verifier.stop_early, CellSpec.parse(name).reward.partial_credit)
        for name in ("none", "s", "none+stop-early", "none+partial-credit", "mct", "mct+stop-early")
    }
    assert halves == {
        "none": (False, False),
        "s": (True, True),
        "none+stop-early": (True, False),
        "none+partial-credit": (False, True),
        "mct": (False, False),
        "mct+stop-early": (True, False),
    }
    assert CellSpec.parse("mct+stop-early").verifier.multi_input


@given(st.floats(0.0, 100.0), st.floats(0.1, 1e3), st.floats(0.0, 1e6), st.floats(0.0, 1e6))
def test_the_uniform_reward_is_linear_up_to_the_cap(alpha: float, cap: float, one: float, other: float) -> None:
    """In proportion to 1 + alpha x speedup for a correct kernel, clipped at the cap; 0 for a wrong one."""
    config = RewardConfig(speedup_floor=cap / 2, speedup_cap=cap, uniform_alpha=alpha)
    spec = CellSpec.parse("s+uniform")
    first, second = (reward_of(verdict(CORRECT, s), spec, config).total for s in (one, other))
    assert 0.0 < first <= 1.0
    weights = [1.0 + alpha * min(s, cap) for s in (one, other)]
    assert first * weights[1] == pytest.approx(second * weights[0])
    assert reward_of(verdict((True, True, True, False), one), spec, config).total == 0.0


def test_the_uniform_reward_of_the_defaults() -> None:
    """By default a correct kernel is worth 0.7, and each time the reference's speed 0.07 more."""
    spec = CellSpec.parse("msct+uniform")
    totals = [reward_of(verdict(CORRECT, speedup), spec, CONFIG).total for speedup in (None, 0.25, 1.0, 4.0, 9.0)]
    assert totals == pytest.approx([0.7, 0.7175, 0.77, 0.98, 0.98])


@given(verdicts)
def test_the_binary_reward_is_blind_to_speed_and_progress(given_verdict: Verdict) -> None:
    """One value for a correct kernel and nothing for any other."""
    reward = reward_of(given_verdict, CellSpec.parse("cs+binary"), CONFIG)
    assert reward.total == (0.7 if given_verdict.correct else 0.0)


def test_injected_noise_has_the_size_it_is_named_after() -> None:
    """Over many draws the logarithm of a speedup spreads as two runtimes of the coefficient do, around no change."""
    import numpy as np

    for cv in (0.05, 0.15, 0.30):
        logs = np.log([noise_factor(cv, derive(7, number)) for number in range(4000)])
        assert float(logs.std()) == pytest.approx((2 * np.log1p(cv * cv)) ** 0.5, rel=0.05)
        assert abs(float(logs.mean())) < 0.1 * cv


@given(st.integers(0, 2**63 - 1))
def test_larger_noise_is_the_same_noise_larger(seed: int) -> None:
    """With one seed, more noise moves a speedup further in the same direction, and none leaves it."""
    small, large = noise_factor(0.05, seed), noise_factor(0.30, seed)
    assert noise_factor(0.0, seed) == 1.0
    assert (small >= 1.0) == (large >= 1.0)
    assert max(large, 1 / large) >= max(small, 1 / small)


@given(verdicts, st.floats(0.1, 10.0))
def test_noise_touches_speedups_alone(given_verdict: Verdict, factor: float) -> None:
    """A speedup that is null stays null, and a verdict stays what it is."""
    noisy = with_noise(given_verdict, factor)
    assert noisy.stages == given_verdict.stages
    before = (given_verdict.speedup, given_verdict.estimated_speedup)
    after = (noisy.speedup, noisy.estimated_speedup)
    assert after == tuple(None if value is None else value * factor for value in before)
