"""Factorial designs: the effects that the cells of a grid can tell apart, and the weights that estimate them.

Factors are coded -1 and +1, so on a full grid every effect is orthogonal to every other and to the mean. A main effect
is the mean response with the extension minus the mean without it; an interaction AB is half the difference between the
effect of A where B is on and where it is off, and so on to four factors.

What a grid cannot separate is not guessed: such an effect has no estimate and names what it is confounded with. The
full grid gives all fifteen effects. On any other, interactions of three and four factors are taken for noise; a grid
too small for main effects beside interactions (one extension at a time, say) is fitted with main effects alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from ..recipe.extensions import LETTERS, Extensions

TERMS: tuple[str, ...] = tuple(
    "".join(letters) for size in range(1, len(LETTERS) + 1) for letters in combinations(LETTERS, size)
)
"""The effects, by letters: four main effects, six interactions of two, four of three and one of four."""

_RANK_TOLERANCE = 1e-9


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
