"""Factorial effects of the extensions, estimated from the cells of the grid: main effects and all interactions.

Factors are coded -1 and +1, so on a full grid every effect is orthogonal to every other and to the mean. A main effect
is the mean response with the extension minus the mean without it; an interaction AB is half the difference between the
effect of A where B is on and where it is off, and so on to four factors. What a grid cannot separate is not guessed:
such an effect has no estimate and names what it is confounded with. The full grid gives all fifteen effects. On any
other, interactions of three and four factors are taken for noise; a grid too small for main effects beside interactions
(one extension at a time, say) is fitted with main effects alone.

Standard errors, as both seeds and tasks were drawn, are `core.statistics.variance_components`'s; what looking at
fifteen effects costs is `core.statistics.intervals`'s. Differences between any two cells are judged likewise.

An interval allows for another draw of the tasks and of the training runs. With one seed it allows for other tasks
alone and says nothing about another training run; `Analysis.over` says so. Then nothing is tested and nothing is called
detectable: runs differ by more than tasks do, and with the noise of seeds left out nearly every second grid without any
effect would show one (simulated, docs/findings/ablation.md: a spread of 2.3 points between runs, 100 tasks). There is
no p-value without its effect: both are fields of one record.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import Generic, TypeVar

import numpy as np
from attrs import field, frozen, validators
from numpy.typing import NDArray

from ..recipe.extensions import LETTERS, NAMED_GRIDS, Extensions
from .intervals import Interval, adjust, detectable_multiple, joint_confidence, p_value, quantile
from .variance_components import Components, Uncertainty, find_components, find_uncertainties

CONFIDENCE = 0.95

TERMS: tuple[str, ...] = tuple(
    "".join(letters) for size in range(1, len(LETTERS) + 1) for letters in combinations(LETTERS, size)
)
"""The effects, by letters: four main effects, six interactions of two, four of three and one of four."""

_RANK_TOLERANCE = 1e-9

GRID, HALF = "all 16 cells", "8 cells of the half grid"
"""In a pair of `compare`, the mean of the grid's cells, or of its half's."""
MEANS = {name: frozenset(map(str, NAMED_GRIDS[grid])) for name, grid in ((GRID, "full"), (HALF, "half"))}

Cell = TypeVar("Cell", bound=Hashable)


@frozen(kw_only=True)
class Response(Generic[Cell]):
    """One number that a cell gave with one seed; `task` is empty where the number is over all tasks.

    The cell is an `Extensions` for the effects of the grid, and any name for differences between cells.
    """

    cell: Cell
    seed: int
    value: float = field(validator=validators.and_(validators.gt(-math.inf), validators.lt(math.inf)))
    task: str = ""


@frozen(kw_only=True)
class Effect:
    """One effect with its interval; numbers are null where the grid cannot separate it from `confounded_with`.

    All but the estimate are null as well where nothing was drawn twice; the p-values and `detectable` with one seed.
    """

    name: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    confounded_with: tuple[str, ...] = ()
    standard_error: float | None = None
    degrees_of_freedom: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    """Holm's, over the effects of one analysis."""
    joint_low: float | None = None
    joint_high: float | None = None
    """The interval that holds together with those of the analysis's other effects."""
    detectable: float | None = None
    """The smallest effect whose 95% interval would exclude 0 with a chance of 80%; null where nothing varied."""

    @property
    def estimable(self) -> bool:
        return self.estimate is not None

    @property
    def conclusive(self) -> bool:
        return self.low is not None and self.high is not None and (self.low > 0.0 or self.high < 0.0)

    @property
    def confirmed(self) -> bool:
        """Whether it differs from zero once all effects of the analysis that were looked at are allowed for."""
        return self.conclusive and self.p_adjusted is not None and self.p_adjusted <= 1.0 - CONFIDENCE


@frozen(kw_only=True)
class Analysis:
    """The effects in the order of `TERMS`; `over` is "seeds and tasks", "seeds", "tasks" or "nothing".

    `order` is the most factors that an interaction was allowed (4 on a full grid; 1: main effects alone).
    """

    effects: tuple[Effect, ...]
    order: int
    num_cells: int
    num_seeds: int
    num_tasks: int
    over: str

    def effect(self, name: str) -> Effect:
        """The effect with this name; raises KeyError."""
        for effect in self.effects:
            if effect.name == name:
                return effect
        raise KeyError(name)


def analyse(responses: Sequence[Response[Extensions]]) -> Analysis | None:
    """Effects of the extensions on the mean response; null without responses.

    Several responses of one cell, seed and task are averaged. Kept are the seeds that every cell has, with the tasks
    that all cells have with each of them; all count alike. Where that is nothing, each cell's mean is over what it
    has, and there are no intervals.
    """
    if not responses:
        return None
    layout = _lay_out(responses)
    solution = solve(layout.cells)
    known, rows = _estimable(solution)
    found = dict(zip(known, _effects(known, rows, layout), strict=True))
    return Analysis(
        effects=tuple(
            found.get(name) or Effect(name=name, confounded_with=solution.confounded[name]) for name in TERMS
        ),
        order=solution.order,
        num_cells=len(layout.cells),
        num_seeds=layout.num_seeds,
        num_tasks=layout.num_tasks,
        over=layout.over,
    )


def find_effect_components(responses: Sequence[Response[Extensions]]) -> dict[str, Components]:
    """Estimate the variances of each effect that the cells tell apart, by name, from what `analyse` keeps.

    Raises ValueError where no two seeds have two tasks in all cells.
    """
    layout = _lay_out(responses)
    if not layout.balanced:
        raise ValueError("the cells have no seed and task in common")
    names, rows = _estimable(solve(layout.cells))
    return dict(zip(names, find_components(layout.values, rows), strict=True))


def _estimable(solution: Solution) -> tuple[list[str], NDArray[np.float64]]:
    """The effects that the cells tell apart, and their weights, (effects, cells)."""
    names = [name for name in TERMS if name not in solution.confounded]
    return names, solution.weights[[TERMS.index(name) for name in names]]


@frozen(kw_only=True)
class Difference:
    """One cell's mean minus another's, over `num_pairs` pairs of seed and task; `over` as in `Analysis`."""

    interval: Interval
    num_seeds: int
    num_pairs: int
    over: str


def compare(responses: Sequence[Response[str]], pairs: Sequence[tuple[str, str]]) -> tuple[Difference | None, ...]:
    """Estimate the first cell's mean minus the second's, for each pair; null where they share no seed and task.

    The names in `MEANS` stand for the mean of several cells, and have no difference where one of them is missing.
    """
    sides = [[MEANS.get(name, frozenset({name})) for name in pair] for pair in pairs]
    return tuple(_difference(responses, *pair) for pair in sides)


def _difference(responses: Sequence[Response[str]], first: frozenset[str], second: frozenset[str]) -> Difference | None:
    """The mean of the first cells minus that of the second."""
    layout = _lay_out([response for response in responses if response.cell in first | second])
    if not layout.balanced or first | second != set(layout.cells):
        return None
    weights = [(name in first) / len(first) - (name in second) / len(second) for name in layout.cells]
    (effect,) = _effects(["difference"], np.array([weights]), layout)
    if effect.estimate is None or effect.low is None or effect.high is None:
        return None
    return Difference(
        interval=Interval(estimate=effect.estimate, low=effect.low, high=effect.high),
        num_seeds=layout.num_seeds,
        num_pairs=layout.num_seeds * layout.num_tasks,
        over=layout.over,
    )


@frozen(kw_only=True, eq=False)
class _Layout(Generic[Cell]):
    """Mean responses, (cells, seeds, tasks), of the seeds and tasks that every cell has.

    Where they have none in common the layout is not balanced, and `values` are the cells' own means, (cells, 1, 1).
    """

    cells: tuple[Cell, ...]
    values: NDArray[np.float64]
    num_seeds: int
    num_tasks: int
    balanced: bool

    @property
    def over(self) -> str:
        if not self.balanced:
            return "nothing"
        counts = (("seeds", self.num_seeds), ("tasks", self.num_tasks))
        return " and ".join(label for label, number in counts if number > 1) or "nothing"


def _lay_out(responses: Sequence[Response[Cell]]) -> _Layout[Cell]:
    cells = tuple(sorted({response.cell for response in responses}))  # type: ignore[type-var]
    seeds = sorted({response.seed for response in responses})
    tasks = sorted({response.task for response in responses})
    places = {
        (c, s, t): (i, j, k) for i, c in enumerate(cells) for j, s in enumerate(seeds) for k, t in enumerate(tasks)
    }
    lists: dict[tuple[int, int, int], list[float]] = {}
    for response in responses:
        lists.setdefault(places[response.cell, response.seed, response.task], []).append(response.value)
    values = np.full((len(cells), len(seeds), len(tasks)), np.nan)
    for place, found in lists.items():
        # exact sums, so that the order of the responses makes no difference
        values[place] = math.fsum(found) / len(found)
    common = np.isfinite(values).all(axis=0)
    kept_seeds = common.any(axis=1)
    kept_tasks = common[kept_seeds].all(axis=0) & bool(kept_seeds.any())
    if not kept_tasks.any():
        means = np.array([np.nanmean(cell) for cell in values])
        return _Layout(
            cells=cells, values=means[:, None, None], num_seeds=len(seeds), num_tasks=len(tasks), balanced=False
        )
    values = values[:, kept_seeds][:, :, kept_tasks]
    return _Layout(cells=cells, values=values, num_seeds=values.shape[1], num_tasks=values.shape[2], balanced=True)


def _effects(names: Sequence[str], rows: NDArray[np.float64], layout: _Layout[Cell]) -> list[Effect]:
    """The contrasts of the cells' means with these weights, (contrasts, cells)."""
    estimates = rows @ layout.values.mean(axis=(1, 2))
    errors = find_uncertainties(layout.values, rows)
    is_tested = layout.num_seeds > 1
    p_values = [
        _p_value(float(estimate), error) if is_tested else None
        for estimate, error in zip(estimates, errors, strict=True)
    ]
    adjusted = adjust([p for p in p_values if p is not None])
    # errors are known for all contrasts of a layout or for none
    adjusted_or_null = adjusted if len(adjusted) == len(p_values) else (None,) * len(p_values)
    return [
        _effect(name, float(estimate), error, p, holm, len(names))
        for name, estimate, error, p, holm in zip(names, estimates, errors, p_values, adjusted_or_null, strict=True)
    ]


def _p_value(estimate: float, error: Uncertainty) -> float | None:
    if error.standard_error is None or error.degrees_of_freedom is None:
        return None
    size, standard_error = _without_rounding(estimate), _without_rounding(error.standard_error)
    if standard_error == 0.0:
        return 1.0 if size == 0.0 else 0.0
    return p_value(size / standard_error, error.degrees_of_freedom)


def _effect(
    name: str, estimate: float, error: Uncertainty, p: float | None, adjusted: float | None, family: int
) -> Effect:
    size = _without_rounding(estimate)
    if error.standard_error is None or error.degrees_of_freedom is None:
        return Effect(name=name, estimate=size)
    standard_error, freedom = _without_rounding(error.standard_error), error.degrees_of_freedom
    alone = quantile((1.0 + CONFIDENCE) / 2.0, freedom) * standard_error
    joint = quantile((1.0 + joint_confidence(CONFIDENCE, family)) / 2.0, freedom) * standard_error
    return Effect(
        name=name,
        estimate=size,
        low=_without_rounding(size - alone),
        high=_without_rounding(size + alone),
        standard_error=standard_error,
        degrees_of_freedom=freedom,
        p_value=p,
        p_adjusted=adjusted,
        joint_low=_without_rounding(size - joint),
        joint_high=_without_rounding(size + joint),
        detectable=_without_rounding(detectable_multiple(freedom) * standard_error)
        if standard_error and p is not None
        else None,
    )


def _without_rounding(value: float) -> float:
    # an effect of 1e-17 is zero with rounding errors, and would count as conclusive
    return round(value, 12) + 0.0


@frozen(kw_only=True, eq=False)
class Solution:
    """Weights from cell means to effects, (terms, cells), zero for terms that cannot be estimated.

    `confounded` names for each such term what it cannot be told from; `order` is the most factors that an interaction
    was allowed: those of more are taken for noise.
    """

    weights: NDArray[np.float64]
    confounded: dict[str, tuple[str, ...]]
    order: int


def solve(cells: Sequence[Extensions]) -> Solution:
    """The least-squares weights of the richest model that these cells carry."""
    design = _design(cells)
    weights, everything = _least_squares(design, len(LETTERS))
    order, confounded = len(LETTERS), everything
    if confounded:
        order = 2
        weights, confounded = _least_squares(design, order)
    mains, partners = _least_squares(design, 1)
    if sum(name in confounded for name in LETTERS) > len(partners):
        # main effects need the additive model, and are gained by it
        weights, order, confounded = mains, 1, partners
    padded = np.zeros((len(TERMS), len(cells)))
    padded[: len(weights)] = weights
    left_out = {name: everything.get(name) or ("mean",) for name in TERMS[len(weights) :]}
    return Solution(weights=padded, confounded={**left_out, **confounded}, order=order)


def _num_terms(order: int) -> int:
    return sum(len(name) <= order for name in TERMS)


def _design(cells: Sequence[Extensions]) -> NDArray[np.float64]:
    """(cells, 1 + terms): the intercept, and each term as the product of its factors' signs."""
    signs = np.array([[1.0 if flag else -1.0 for flag in cell.flags] for cell in cells])
    columns = [np.prod([signs[:, LETTERS.index(letter)] for letter in term], axis=0) for term in TERMS]
    return np.column_stack([np.ones(len(cells)), *columns])


def _least_squares(design: NDArray[np.float64], order: int) -> tuple[NDArray[np.float64], dict[str, tuple[str, ...]]]:
    """The weights of the terms up to an order, and each inestimable term's partners.

    A coefficient is estimable just where its row of the projection onto the design's row space is the unit vector;
    other entries of the row name the partners.
    """
    design = design[:, : 1 + _num_terms(order)]
    inverse = np.linalg.pinv(design, rcond=_RANK_TOLERANCE)
    projection = inverse @ design
    names = ("mean", *TERMS)[: design.shape[1]]
    confounded: dict[str, tuple[str, ...]] = {}
    for index, name in enumerate(names[1:], start=1):
        if abs(projection[index, index] - 1.0) > 1e-6:
            confounded[name] = tuple(
                other for place, other in enumerate(names) if place != index and abs(projection[index, place]) > 1e-6
            )
    # with -1 and +1 coding the coefficient is half the difference between the levels
    return np.asarray(2.0 * inverse[1:], dtype=np.float64), confounded
