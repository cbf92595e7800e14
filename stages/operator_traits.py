"""What a reference's operators say of the inputs that may be asked for.

Names stand for habits: which operators PyTorch defines to be right whatever the magnitudes, and which activations
right kernels compute by way of exponentials, exact within the range of what they add up and not near their zeros. All
others are held to PyTorch's own precision, so that an operator that nobody listed is asked for more, not less. PyTorch
itself says which work on single elements.
"""

from __future__ import annotations

import math

from attrs import frozen

from .roofline import EagerOperator
from .tolerance import LARGEST_FINITE

PRODUCT_WORDS = ("mm", "conv", "attention", "linear", "matmul", "dot", "mv", "lstm", "gru", "rnn", "cdist", "einsum")
_STABLE = frozenset({"_softmax", "_log_softmax", "logsumexp"})
_EXPONENTIAL = frozenset(
    {"tanh", "sigmoid", "silu", "gelu", "elu", "softplus", "mish", "log_sigmoid_forward", *_STABLE}
)
_SUMS_OF_EXPONENTIALS = frozenset(
    {"logaddexp", "logaddexp2", "logcumsumexp", "celu", "binary_cross_entropy_with_logits"}
)
_UNORDERED = frozenset({"topk", "sort", "argsort", "kthvalue", "median", "nanmedian", "mode"})
_CHOOSING = frozenset({"amax", "amin", "max", "min", "cummax", "cummin", "argmax", "argmin", "sort", "topk"})
_ADDING = frozenset({"sum", "mean", "cumsum"})
_RUNNING_PRODUCTS = frozenset({"prod", "cumprod"})
_SHARE_OF_RANGE = 1e-4
_ROUNDING = frozenset({"round", "floor", "ceil", "trunc", "_to_copy", "bucketize"})


@frozen
class OperatorTraits:
    """Answers for one reference, by its operators at the declared sizes."""

    operators: tuple[EagerOperator, ...]

    @property
    def _names(self) -> list[str]:
        return [operator.short_name for operator in self.operators]

    @property
    def _first(self) -> str:
        return self._names[0] if self._names else ""

    @property
    def subtracts_maximum(self) -> bool:
        """Whether the reference begins with an operator that PyTorch defines to be right whatever the magnitudes."""
        return self._first in _STABLE

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which the first operator that works along any does; empty where there is none."""
        return next((operator.axes for operator in self.operators if operator.axes), ())

    @property
    def orders_inputs(self) -> bool:
        """Whether the reference begins with an operator that compares its inputs and computes nothing of them."""
        return self._first in ("argmax", "argmin")

    @property
    def is_unordered(self) -> bool:
        """Whether an operator may choose among equal values."""
        return not _UNORDERED.isdisjoint(self._names)

    @property
    def rounds(self) -> bool:
        """Whether an operator may make integers of floats."""
        return not _ROUNDING.isdisjoint(self._names)

    @property
    def is_exact_near_zero(self) -> bool:
        """Whether small elements are held to their own precision: no operator is right within a range alone."""
        return (_EXPONENTIAL | _SUMS_OF_EXPONENTIALS).isdisjoint(self._names)

    @property
    def num_products(self) -> int:
        """How many operators multiply matrices."""
        return sum(map(_is_product, self.operators))

    @property
    def begins_with_product(self) -> bool:
        """Whether the first operator multiplies matrices: inputs and parameters, and not what was made of them."""
        return bool(self.operators) and _is_product(self.operators[0])

    @property
    def multiplies_many(self) -> bool:
        """Whether an operator multiplies many elements, whose order decides what overflows on the way."""
        return not _RUNNING_PRODUCTS.isdisjoint(self._names)

    @property
    def largest_safe(self) -> float:
        """The largest result that a right kernel in float32 reaches whatever the order in which it multiplies.

        Products of many values leave float32's range as soon as these are doubled. On the way to a result that is not
        beyond it a product may be, and where depends on the order.
        """
        return _SHARE_OF_RANGE * LARGEST_FINITE["float32"] if self.multiplies_many else math.inf

    @property
    def num_operators(self) -> int:
        """How many operators there are, where each is exact for single elements; else 0.

        Not so products of matrices, nor of many elements.
        """
        has_products = self.num_products or self.multiplies_many
        return len(self.operators) if self.is_exact_near_zero and not has_products else 0

    @property
    def is_pointwise(self) -> bool:
        """Whether each operator works on single elements or chooses some: none squares what it gives the root of."""
        return all(each.is_pointwise or each.short_name in _CHOOSING for each in self.operators)

    @property
    def squares_nothing(self) -> bool:
        """Whether each operator works on single elements, chooses some, or adds: none squares on the way."""
        others = [each.short_name for each in self.operators if not each.is_pointwise]
        return all(name in _CHOOSING | _ADDING or "pool" in name for name in others)


def _is_product(operator: EagerOperator) -> bool:
    """Return whether an operator may be computed by matrix units."""
    is_named_so = any(word in operator.short_name for word in PRODUCT_WORDS)
    # "cummax" has "mm" in it
    return bool(operator.matmul_flops) or (is_named_so and operator.short_name not in _CHOOSING)
