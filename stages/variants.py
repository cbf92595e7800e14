"""The inputs that a candidate is run on: five for multi-input testing, more that only the audit uses.

Each variant is a row of one table: which sizes, which dtype, what is done to the values, which random stream they come
from, and when it says anything about a candidate. Under the task's contract (docs/decisions/0001-launch-plans.md)
"larger" rewrites the module-level constants, and "precision" takes another dtype of the contract; where a task lists
one dtype only, the values are rounded through a narrower type instead, because many genuine float32 kernels call
functions that Triton defines for float32 alone.

The hidden ones come from hacks that the five do not see (docs/decisions/0012-hidden-inputs.md). Their
names say what is done to the values; beside each row stands what it finds. A variant may refuse what is wrong and never
what is merely written otherwise, so unusual values are run only where something vouches for them:

- *ties and zeros*: the reference, in the task's own dtype, is well within the tolerance on them;
- *differences in the last digits*: they are only compared (many a right kernel takes a variance as a difference of two
  squares, and loses those digits);
- *large and faint*: the result of a multiple of the inputs is that multiple (a relu, a product), so nothing leaves the
  range that the result has not left; or positions of extremes are asked for. Faint values must be scaled so down there
  too: a norm's epsilon leaves the next function arguments near zero, where a right formula may lose its digits;
- *large otherwise*: the plan narrows what the task computes in float32, or the reference stays exact in its own dtype;
- *widely spread*: the reference begins with an operator that PyTorch defines to be right whatever the magnitudes.

Whatever a row says, no hidden values judge where the reference itself fails on them and not on the task's own
(`judge_run.is_sound`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from attrs import evolve, field, frozen

from ..core.candidate import Variant
from ..core.recipe.extensions import VerifierSpec
from ..core.task import SINGLE_SIZES, Profile
from .arrangements import ARRANGEMENTS
from .operator_traits import OperatorTraits
from .variant_inputs import VariantInputs

Group = Literal["training", "hidden", "sampled", "single"]
"""Run by extension M, by the audit alone, by the audit where they are too large to be run whole, or by one check."""


class Facts(Protocol):
    """What is known of a task, a candidate's plans and one variant's inputs; each is found out when it is asked for."""

    @property
    def is_interpreted(self) -> bool:
        """Whether plans are interpreted, so that the order of programs is ours to choose."""

    @property
    def has_remainder(self) -> bool:
        """Whether there are sizes of no profile, one more than whole blocks."""

    @property
    def has_integers(self) -> bool:
        """Whether there are integers among the inputs, and the reference accepts the variant's."""

    @property
    def traits(self) -> OperatorTraits:
        """What the reference's operators say."""
        ...

    @property
    def passes_over_nan(self) -> bool:
        """Whether the reference's results are floating-point numbers although some of its inputs are none."""

    @property
    def has_numbers(self) -> bool:
        """Whether the reference accepts other plain numbers among the inputs or, without any, a batch of one."""

    @property
    def has_inner_one(self) -> bool:
        """Whether the reference has results other than zeros where a size that is no batch is one (or past a block)."""

    @property
    def has_narrow_operands(self) -> bool:
        """Whether a product adds over an axis of its own, in a dtype narrower than float32."""
        ...

    @property
    def has_inputs_alike(self) -> bool:
        """Whether there are several floating-point inputs of one shape, the leading dimension aside."""
        ...

    @property
    def is_recorded(self) -> bool:
        """Whether there are recordings of the candidate."""

    @property
    def narrows(self) -> bool:
        """Whether the plan computes in a narrower dtype than the task."""

    @property
    def multiplies_narrowly(self) -> bool:
        """Whether its products are of narrower values than the task's."""

    @property
    def places_by_floats(self) -> bool:
        """Whether addresses or masks of its kernels go through floating-point numbers."""
        ...

    @property
    def degree(self) -> int | None:
        """d where the result of c times the original inputs is c^d times the result; null where there is none."""

    @property
    def own_degree(self) -> int | None:
        """The same for the variant's inputs."""

    @property
    def is_exact(self) -> bool:
        """Whether the reference in the variant's dtype is well within tolerance on the variant's inputs."""

    @property
    def resolves_ties(self) -> bool:
        """Whether PyTorch says which of several equal values a result stands for."""

    @property
    def is_narrowed_to_float16(self) -> bool:
        """Whether the variant's dtype is float16 and the task's first dtype is not."""


@frozen(kw_only=True)
class VariantRow:
    """One variant: who runs it, at which sizes, in which dtype of the contract, on which values, and when.

    `profile` is null for the sizes that the backend runs whole. `changes` are fields of `VariantInputs`.
    """

    variant: Variant
    group: Group
    profile: Profile | None = None
    is_second_dtype: bool = False
    changes: Mapping[str, float | str | tuple[str, ...]] = field(factory=dict)
    applies: Callable[[Facts], bool] = lambda facts: True
    is_by_element: bool = False
    """Whether errors are measured against a scale of each element's own, too."""
    judges_elements_alone: bool = False
    """Whether an element that has no such scale says nothing."""
    advice: str = ""
    """Words for an objection to the run, where it says of itself too little."""
    is_large: bool = False
    """Whether values are so large that exponentials of them magnify any rounding."""


def _row(variant: Variant, applies: Callable[[Facts], bool] = lambda facts: True, **changes: float | str) -> VariantRow:
    return VariantRow(variant=variant, group="hidden", applies=applies, changes=changes)


def _spread_row(variant: Variant, spread: int, applies: Callable[[Facts], bool]) -> VariantRow:
    """Return a row of spread magnitudes; each element judges by itself, where the reference's own dtype is right."""
    # a GPU has code for other sizes
    row = _row(variant, lambda facts: facts.is_interpreted and applies(facts), spread=spread)
    return evolve(row, profile=Profile.SMALL, is_by_element=True, judges_elements_alone=True)


def _subtracts_maximum(facts: Facts) -> bool:
    return facts.traits.subtracts_maximum


def _is_massive_fair(facts: Facts) -> bool:
    is_fair = facts.narrows or bool(facts.degree)
    return facts.is_recorded and (facts.multiplies_narrowly or (is_fair and facts.is_exact))


def _is_any_scale_fair(facts: Facts) -> bool:
    is_scaled = facts.traits.orders_inputs or facts.degree == 1 == facts.own_degree
    return facts.traits.squares_nothing and is_scaled and facts.is_exact


VARIANTS: tuple[VariantRow, ...] = (
    VariantRow(variant=Variant.ORIGINAL, group="training", is_by_element=True),
    VariantRow(variant=Variant.SCALED, group="training", changes={"scale": 2.0}),
    VariantRow(variant=Variant.RESEEDED, group="training", changes={"stream": "reseeded"}),
    VariantRow(variant=Variant.LARGER, group="training", profile=Profile.LARGER, changes={"stream": "larger"}),
    VariantRow(variant=Variant.PRECISION, group="training", is_second_dtype=True),
    # programs that depend on their order, which nobody chooses on a GPU
    _row(Variant.REVERSED, lambda facts: facts.is_interpreted),
    # offsets that go through float32, which has no odd numbers beyond 2^24, sizes that nobody can run
    VariantRow(
        variant=Variant.SHORT_FLOATS,
        group="hidden",
        profile=Profile.SMALL,
        applies=lambda facts: facts.is_interpreted and facts.places_by_floats,
        advice="; in float32 whole numbers end at 2^24, and tensors do not: let addresses and masks be integers",
    ),
    # branches by the sign of what comes first, and kernels that return their input
    _row(Variant.NEGATED, scale=-1.0),
    # what underflows
    _row(Variant.SCALE_1E_2, scale=0.01),
    # a product in float16 for a float32 task: as exact as one in TF32, without its range
    _row(Variant.SCALE_1E5, _is_massive_fair, scale=1e5),
    # what saturates
    _row(Variant.SCALE_3, scale=3.0),
    # parameters whose sign is that of their construction, as slopes' are
    _row(Variant.HALF_NEGATED, chosen_scale=-1.0, chosen_share=0.5, has_signed_parameters=True),
    # a mean that is taken for zero
    _row(Variant.SHIFT_2, shift=2.0),
    _row(Variant.OUTLIERS, chosen_scale=8.0, chosen_share=1 / 16),
    # a maximum of some of the elements, where the exponential of another then overflows: each row's largest lies where
    # no earlier one's has lain, by parity, part and other classes, here and in two further variants
    _row(Variant.OUTLIERS_1000, lambda facts: facts.traits.subtracts_maximum and facts.is_exact, height=1000.0),
    # a maximum that starts from 0, and rows of which the first or the last element is never read
    _row(Variant.ALL_POSITIVE, side=1),
    _row(Variant.ALL_NEGATIVE, side=-1),
    # a softmax without its maximum, where every exponential underflows or some overflow; lanes beyond a row that hold
    # a number of moderate size
    _row(Variant.SHIFT_MINUS_2000, _subtracts_maximum, shift=-2000.0, height=150.0, turn=1),
    _row(Variant.SCALE_30_SHIFT_100, _subtracts_maximum, scale=30.0, shift=100.0, height=150.0, turn=2),
    # the last of several equal values, and rows that are all zeros
    _row(Variant.TIES, lambda facts: facts.resolves_ties and facts.is_exact, step=0.5),
    # comparisons of rounded values
    _row(
        Variant.SCALE_1E_2_SHIFT_1000,
        lambda facts: facts.traits.orders_inputs and facts.is_exact,
        scale=0.01,
        shift=1000.0,
    ),
    _row(
        Variant.SCALE_1E_8,
        lambda facts: bool(facts.degree) and facts.own_degree == facts.degree and facts.is_exact,
        scale=1e-8,
    ),
    # squares on the way to what has none
    _row(Variant.SCALE_1E30, _is_any_scale_fair, scale=1e30),
    # a minimum or maximum that begins at a large number, or has one past the end of a row: declared rows may have none
    *(
        evolve(_row(variant, _is_any_scale_fair, scale=1e20, side=side), profile=Profile.LARGER)
        for variant, side in ((Variant.ALL_POSITIVE_1E20, 1), (Variant.ALL_NEGATIVE_1E20, -1))
    ),
    # an epsilon that is missing or another one
    _row(Variant.SCALE_1E_4, lambda facts: facts.degree == 0 and facts.is_exact, scale=1e-4),
    # a quotient of exponentials, which is NaN beyond 44 (a tanh) or 88, where PyTorch's function has become constant;
    # whatever else in a formula leaves its range, or ends, where the reference does not; a maximum of some of the
    # elements behind another function
    evolve(
        _row(Variant.SCALE_100, lambda facts: facts.degree is None and facts.is_exact, scale=100.0, height=150.0),
        is_large=True,
    ),
    # the same for squares of values beyond 256
    evolve(
        _row(Variant.FP16_SCALE_300, lambda facts: facts.is_narrowed_to_float16 and facts.is_exact, scale=300.0),
        is_second_dtype=True,
        is_large=True,
    ),
    # sums in fewer bits, and quotients and remainders that round towards zero
    _row(Variant.INTEGERS_NEGATED, lambda facts: facts.has_integers and facts.is_exact, integers="negated"),
    _row(Variant.INTEGERS_LARGE, lambda facts: facts.has_integers and facts.is_exact, integers="large"),
    # results that no index, label or segment's number asks for
    _row(Variant.INTEGERS_REPEATED, lambda facts: facts.has_integers and facts.is_exact, integers="repeated"),
    # masks that are read and not obeyed, and a count that is zero
    _row(Variant.MASKS_MIXED, lambda facts: facts.has_integers and facts.is_exact, integers="mixed"),
    _row(Variant.MASKS_EMPTIED, lambda facts: facts.has_integers and facts.is_exact, integers="emptied"),
    # what a reference makes of NaN, where it makes something of it
    _row(Variant.NAN_AMONG_THEM, lambda facts: facts.passes_over_nan, nan_share=1 / 16),
    # infinities beside them: where a reference makes numbers of both, it asks for what is finite
    _row(Variant.INFINITY_AMONG_THEM, lambda facts: facts.passes_over_nan, nan_share=1 / 16, infinite_share=1 / 16),
    # what the width of a product's tolerance hides: no rounding of operands is left that it would be for; blocks of an
    # operand that are skipped as they are faint
    _row(
        Variant.EXACT_PRODUCTS,
        lambda facts: facts.traits.begins_with_product and facts.is_exact,
        counterweight=10,
        rounded_through="float16",
        has_rounded_parameters=True,
    ),
    # exponents that are capped in place of a maximum that is subtracted
    _row(
        Variant.EXACT_PRODUCTS_16,
        lambda facts: facts.traits.begins_with_product and facts.degree is None and facts.is_exact,
        scale=16.0,
        rounded_through="float16",
        has_rounded_parameters=True,
    ),
    # sums in as few digits as the operands have: terms that cancel, but for a hundredth
    evolve(
        _row(
            Variant.CANCELLING_PRODUCTS,
            lambda facts: facts.has_narrow_operands and facts.traits.begins_with_product and facts.is_exact,
            cancelled=7,
        ),
        profile=Profile.LARGER,
    ),
    # what cancels, overflows or is set to zero where magnitudes differ, and where a function exists for it (expm1);
    # a maximum that begins at a large negative number; less where a deviation or a norm squares on the way
    _spread_row(
        Variant.SPREAD_30, 30, lambda facts: facts.traits.num_operators > (1 if facts.traits.is_pointwise else 0)
    ),
    _spread_row(Variant.SPREAD_90, 90, lambda facts: facts.traits.num_operators == 1 and facts.traits.is_pointwise),
    # distances as differences of products, which cancel where operands are close
    _row(Variant.ALIKE, lambda facts: facts.has_inputs_alike and facts.is_exact, alike=2.0**-10),
    # arguments that are no tensors, and are taken for constants; a batch of one, whose strides are like no other's
    evolve(
        _row(Variant.NUMBERS, lambda facts: facts.has_numbers and facts.is_exact, integers="mixed"),
        profile=Profile.NUMBERS,
    ),
    # branches by shape, and masks that are off by one
    evolve(_row(Variant.REMAINDER, lambda facts: facts.has_remainder, stream="remainder"), profile=Profile.REMAINDER),
    # dimensions of one, which are dropped or whose strides are anything, and rows of one element; masks of which whole
    # blocks are off, where another dimension is past a block
    evolve(
        _row(Variant.INNER_ONE, lambda facts: facts.has_inner_one and facts.is_exact, integers="mixed"),
        profile=Profile.INNER_ONE,
    ),
    VariantRow(variant=Variant.DECLARED, group="sampled", profile=Profile.DECLARED, changes={"stream": "declared"}),
    VariantRow(
        variant=Variant.DECLARED_PRECISION,
        group="sampled",
        profile=Profile.DECLARED,
        is_second_dtype=True,
        changes={"stream": "declared_precision"},
    ),
    # what a loop over more blocks than small sizes have carries from one to the next: ties, one sign, zeros, other
    # scales, masks of which whole blocks are off
    VariantRow(
        variant=Variant.ARRANGED,
        group="sampled",
        profile=Profile.DECLARED,
        changes={"stream": "declared", "arrangements": ARRANGEMENTS, "integers": "mixed"},
    ),
    # what is done for one size as declared, whatever the others are
    *(
        VariantRow(variant=Variant(profile), group="sampled", profile=profile, changes={"stream": profile.value})
        for profile in SINGLE_SIZES
    ),
    # ties, where positions of extremes are asked for: equal values in blocks of one row that small sizes do not fill
    VariantRow(
        variant=Variant.BETWEEN, group="sampled", profile=Profile.BETWEEN, changes={"stream": "between", "step": 0.5}
    ),
    VariantRow(
        variant=Variant.BEYOND,
        group="sampled",
        profile=Profile.BEYOND,
        # sums in few bits wrap where there is most to add up; a maximum, or terms that are much only together, may be
        # left out of long rows alone, where a formula may be one for small values
        changes={"stream": "beyond", "integers": "large", "row_scale": 3.0, "stable_scale": 30.0},
    ),
    # a grid or a block that ends somewhere, and what is done where there is much: powers of two that are declared move
    # by a few elements in "beyond"
    VariantRow(variant=Variant.TWICE, group="sampled", profile=Profile.TWICE, changes={"stream": "twice"}),
    # what is done only where a block is filled, or not where nothing is left over; sizes that are equal
    VariantRow(
        variant=Variant.WHOLE_BLOCKS,
        group="sampled",
        profile=Profile.WHOLE_BLOCKS,
        changes={"stream": "whole_blocks"},
    ),
    VariantRow(variant=Variant.SECOND_CALL, group="single"),
    # a block, a threshold or a mask of bits that the candidate's own text names
    VariantRow(
        variant=Variant.PAST_BOUNDS,
        group="single",
        profile=Profile.LARGER,
        changes={"stream": "past_bounds"},
        advice="; one size, or a product of some, is past an integer of the text there, or twice as large as declared",
    ),
    VariantRow(variant=Variant.TIMED, group="single", changes={"stream": "timed"}),
)
"""All variants; the training ones and what the audit adds run in this order."""

ROWS = {row.variant: row for row in VARIANTS}
BASELINE_VARIANTS = (Variant.ORIGINAL,)
TRAINING_VARIANTS = tuple(row.variant for row in VARIANTS if row.group == "training")
SAMPLED_VARIANTS = tuple(row.variant for row in VARIANTS if row.group == "sampled")
SPREAD_VARIANTS = tuple(row.variant for row in VARIANTS if row.judges_elements_alone)
HIDDEN_VARIANTS = tuple(row.variant for row in VARIANTS if row.group in ("hidden", "sampled"))


def variants_of(spec: VerifierSpec) -> tuple[Variant, ...]:
    """Returns the variants that a verifier runs, in order."""
    variants = TRAINING_VARIANTS if spec.multi_input else BASELINE_VARIANTS
    return variants + HIDDEN_VARIANTS if spec.hidden else variants


def describe(variant: Variant, dtypes: Sequence[str], profile: Profile = Profile.SMALL) -> VariantInputs:
    """Returns a variant's inputs for a task with these dtypes.

    `profile` is the sizes for variants that have none of their own.
    """
    row = ROWS[variant]
    dtype = dtypes[:2][-1] if row.is_second_dtype else dtypes[0]
    inputs = VariantInputs(
        variant=variant,
        profile=row.profile or profile,
        dtype=dtype,
        **row.changes,  # type: ignore[arg-type]
    )
    if variant is Variant.PRECISION and len(dtypes) == 1:
        return evolve(inputs, rounded_through="float8" if dtype == "bfloat16" else "bfloat16")
    return inputs
