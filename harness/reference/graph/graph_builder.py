"""Operations as they are written down, with what is known of their values: views, reductions, constants, comparisons.

Sums and products are written with their signs and inverses, a reduction of a reduction as one, a sum that is divided by
how many it adds as a mean, and a view of a view as a view of the first. What a shape tells (how many elements a sum
has) is known here alone; the rules that need none are in `core.normal_form`. Dimensions are counted from the end, and
written as texts.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from attrs import evolve, frozen

from ....core.graphs.operation_graph import EVERYWHERE, INVERSES, LEAF, NUMBER, Operand, Operation

CONSTANT = "constant"
"""The operation of a tensor that is one number everywhere."""
Group = tuple[tuple[int, ...], tuple[int, ...]]
"""Dimensions of a tensor and the dimensions of its view that have the same elements; both from the end."""

_NESTING = frozenset({"sum", "mean", "amax", "amin"})
"""Reductions of which two in a row are one over the dimensions of both."""


@frozen(kw_only=True)
class View:
    """What a value is a view of, the shapes of both without sizes of one, and which dimensions became which."""

    base: Operand
    shape: tuple[int, ...]
    view: tuple[int, ...]
    groups: tuple[Group, ...]


@frozen(kw_only=True)
class Reduction:
    """A reduction: its name, what it reduces, that value's shape and the dimensions, from the end."""

    name: str
    operand: Operand
    shape: tuple[int, ...]
    dims: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many elements one of the result is made of."""
        return math.prod(self.shape[dim] for dim in self.dims)


@frozen(kw_only=True)
class Comparison:
    """Where a tensor is above a number, or below it."""

    operand: Operand
    is_above: bool
    number: float


def plain(operand: Operand) -> Operand:
    """The value, whatever its role and reach where it was read."""
    return Operand(source=operand.source, output=operand.output)


class GraphBuilder:
    """Operations in the order in which they were written; each method gives the value that it wrote."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.views: dict[int, View] = {}
        self.reductions: dict[int, Reduction] = {}
        self.constants: dict[int, float] = {}
        self.comparisons: dict[int, Comparison] = {}
        self._orders: dict[int, tuple[int, ...]] = {}

    def add(self, name: str, operands: Iterable[Operand] = (), attributes: Sequence[str] = ()) -> Operand:
        """An operation as it is."""
        self.operations.append(Operation(name=name, operands=tuple(operands), attributes=tuple(attributes)))
        return Operand(source=len(self.operations) - 1)

    def is_given(self, operand: Operand) -> bool:
        """Whether nothing computed the value."""
        return self.operations[operand.source].name == LEAF

    def total(self, *terms: Operand, minus: Sequence[Operand] = (), number: bool = False) -> Operand:
        """The sum of these, less those, and a number."""
        return self._combine("add", terms, minus, number)

    def product(self, *factors: Operand, under: Sequence[Operand] = (), number: bool = False) -> Operand:
        """The product of these, divided by those, and a number."""
        return self._combine("mul", factors, under, number)

    def _combine(self, name: str, first: Sequence[Operand], second: Sequence[Operand], number: bool) -> Operand:
        operands = [evolve(operand, role="") for operand in first]
        operands += [evolve(operand, role=INVERSES[name]) for operand in second]
        return self.add(name, operands, [NUMBER] if number else [])

    def apply(self, name: str, operand: Operand, *attributes: str) -> Operand:
        """A function of one value."""
        return self.add(name, [plain(operand)], attributes)

    def sigmoid(self, x: Operand) -> Operand:
        """1 / (1 + exp(-x))."""
        return self.product(under=[self.total(self.apply("exp", self.total(minus=[plain(x)])), number=True)])

    def softplus(self, x: Operand) -> Operand:
        """log(1 + exp(x))."""
        return self.apply("log", self.total(self.apply("exp", x), number=True))

    def clamp(self, x: Operand, *sides: str) -> Operand:
        """The value between bounds on these sides."""
        return self.apply("clamp", x, *sides)

    def above(self, x: Operand, number: float = 0.0) -> Operand:
        """Where a value is above a number."""
        made = self.apply("gt", x, NUMBER)
        self.comparisons[made.source] = Comparison(operand=plain(x), is_above=True, number=number)
        return made

    def constant(self, value: float = math.nan) -> Operand:
        """One number everywhere."""
        made = self.add(CONSTANT)
        self.constants[made.source] = value
        return evolve(made, reach="nowhere")

    def scale(self, x: Operand, factor: float) -> Operand:
        """The value times a number: a mean, where a sum is divided by how many it adds."""
        found = self.reductions.get(x.source)
        if found is not None and found.name == "sum" and x.reach == EVERYWHERE:
            if math.isclose(factor * found.count, 1.0, rel_tol=1e-6):
                return self._reduce(evolve(found, name="mean"))
            if found.count > 1 and math.isclose(factor * (found.count - 1), 1.0, rel_tol=1e-6):
                return self.product(self._reduce(evolve(found, name="mean")), number=True)
        if factor == -1.0:
            return self.total(minus=[x])
        return self.product(x, number=True)

    def reduce(self, name: str, x: Operand, shape: Sequence[int], dims: Collection[int]) -> Operand:
        """A reduction over dimensions, from the end, of a value of that shape."""
        return self._reduce(Reduction(name=name, operand=plain(x), shape=tuple(shape), dims=tuple(sorted(dims))))

    def find_base(
        self, x: Operand, shape: Sequence[int], dims: Collection[int]
    ) -> tuple[Operand, tuple[int, ...], tuple[int, ...]]:
        """What a value that is reduced is a view of, its shape and its dimensions that are reduced; or as they are."""
        found = self._through_view(Reduction(name="", operand=plain(x), shape=tuple(shape), dims=tuple(sorted(dims))))
        return found.operand, found.shape, found.dims

    def _reduce(self, wanted: Reduction) -> Operand:
        wanted = self._through_view(wanted)
        inner = self.reductions.get(wanted.operand.source)
        if inner is not None and inner.name == wanted.name and wanted.name in _NESTING:
            kept = [dim for dim in range(-len(inner.shape), 0) if dim not in inner.dims]
            if wanted.shape == tuple(inner.shape[dim] for dim in kept):
                wanted = evolve(inner, dims=tuple(sorted({*inner.dims, *(kept[dim] for dim in wanted.dims)})))
            elif wanted.shape == tuple(1 if dim in inner.dims else s for dim, s in _count(inner.shape)):
                wanted = evolve(inner, dims=tuple(sorted({*inner.dims, *wanted.dims})))
        made = self.add(wanted.name, [wanted.operand], [f"dim={name_dims(wanted.dims, len(wanted.shape))}"])
        self.reductions[made.source] = wanted
        return made

    def _through_view(self, wanted: Reduction) -> Reduction:
        """The reduction of what the value is a view of, where the view only merged what is reduced."""
        view = self.views.get(wanted.operand.source)
        if view is None or list(view.view) != keep_long(wanted.shape):
            return wanted
        long = [dim for dim, size in _count(wanted.shape) if size != 1]
        chosen = {place - len(long) for place, dim in enumerate(long) if dim in wanted.dims}
        dims: list[int] = []
        for old, new in view.groups:
            is_reduced = {dim in chosen for dim in new}
            if len(is_reduced) > 1 or (is_reduced == {False} and (len(old), len(new)) != (1, 1)):
                return wanted
            dims += old if is_reduced == {True} else ()
        return Reduction(name=wanted.name, operand=view.base, shape=view.shape, dims=tuple(sorted(dims)))

    def softmax(self, x: Operand, shape: Sequence[int], dim: int) -> Operand:
        """exp(x) over its sum along a dimension, which counts from the end."""
        exponential = self.apply("exp", x)
        total = self.reduce("sum", exponential, shape, [dim])
        return self.product(exponential, under=[evolve(total, reach=name_spread(shape, [dim]))])

    def logsumexp(self, x: Operand, shape: Sequence[int], dims: Collection[int]) -> Operand:
        """The logarithm of the sum of exponentials."""
        return self.apply("log", self.reduce("sum", self.apply("exp", x), shape, dims))

    def variance(self, x: Operand, shape: Sequence[int], dims: Collection[int]) -> tuple[Operand, Operand]:
        """What is left of a value without its mean, and the mean of that squared."""
        mean = evolve(self.reduce("mean", x, shape, dims), reach=name_spread(shape, dims))
        centred = self.total(plain(x), minus=[mean])
        return centred, self.reduce("mean", self.product(centred, centred), shape, dims)

    def normalise(self, x: Operand, shape: Sequence[int], dims: Collection[int]) -> Operand:
        """A value without its mean, over the root of its variance and a number."""
        centred, variance = self.variance(x, shape, dims)
        root = self.apply("sqrt", self.total(variance, number=True))
        return self.product(centred, under=[evolve(root, reach=name_spread(shape, dims))])

    def choose(self, mask: Operand, yes: Operand, no: Operand) -> Operand:
        """One value where a mask is true and another where it is not; masks of one meaning are written in one way."""
        yes, no = (evolve(x, reach="nowhere") if x.source in self.constants else x for x in (yes, no))
        made = self.operations[mask.source]
        compared = self.comparisons.get(mask.source)
        if made.name == "bitwise_not":
            return self.choose(evolve(mask, source=made.operands[0].source, output=0), no, yes)
        if made.name == "triu" and self.operations[made.operands[0].source].name == CONSTANT:
            return self.choose(evolve(self.apply("tril", made.operands[0]), reach=mask.reach), no, yes)
        if compared is not None:
            if not compared.is_above:
                return self.choose(self.above(compared.operand, compared.number), no, yes)
            if plain(yes) == compared.operand and self.constants.get(no.source) == compared.number:
                return self.clamp(yes, "lower")
            if plain(no) == compared.operand and self.constants.get(yes.source) == compared.number:
                return self.clamp(no, "upper")
            if plain(yes) == compared.operand and self._is_exponential_less_one(no, compared.operand):
                return self.apply("elu", yes)
        return self.add("where", [evolve(mask, role=""), evolve(yes, role=""), evolve(no, role="")])

    def _is_exponential_less_one(self, x: Operand, operand: Operand) -> bool:
        made = self.operations[x.source]
        if made.name == "mul" and len(made.operands) == 1 and made.attributes == (NUMBER,):
            made = self.operations[made.operands[0].source]
        if made.name != "add" or len(made.operands) != 1 or made.attributes != (NUMBER,):
            return False
        inner = self.operations[made.operands[0].source]
        return inner.name == "exp" and inner.operands == (operand,)

    def view(self, x: Operand, shape: Sequence[int], view: Sequence[int]) -> Operand:
        """A value of one shape in another one."""
        known = self.views.get(x.source)
        if known is not None:
            x, shape = known.base, known.shape
        shape, view = keep_long(shape), keep_long(view)
        if shape == view:
            return plain(x)
        groups = match_view(shape, view)
        made = self.add("view", [plain(x)], [] if groups is None else [name_view(groups)])
        if groups is not None:
            self.views[made.source] = View(base=plain(x), shape=tuple(shape), view=tuple(view), groups=tuple(groups))
        return made

    def permute(self, given: Operand, order: tuple[int, ...]) -> Operand:
        """The value with its last dimensions in that order; two in a row are one, and a product's go to its factors."""
        inner = self._orders.get(given.source)
        if inner is not None:
            given = self.operations[given.source].operands[0]
            width = max(len(inner), len(order))
            inner = (*range(-width, -len(inner)), *inner)
            order = tuple(inner[dim] for dim in (*range(-width, -len(order)), *order))
            moved = [place for place, dim in enumerate(order) if dim != place - width]
            if not moved:
                return plain(given)
            order = order[moved[0] :]
        made = self.operations[given.source]
        if order == (-1, -2) and made.name in ("matmul", "bmm"):
            left, right = (self.permute(operand, order) for operand in made.operands)
            return self.add(made.name, [right, left], made.attributes)
        found = self.add("permute", [plain(given)], [join(order)])
        self._orders[found.source] = order
        return found

    def compare(self, x: Operand, name: str, number: float) -> None:
        """Remember what a comparison with a number says."""
        written = len(self.operations) - 1
        is_above = name in ("gt", "ge")
        self.comparisons[written] = Comparison(operand=plain(x), is_above=is_above, number=number)


def _count(shape: Sequence[int]) -> list[tuple[int, int]]:
    return [(place - len(shape), size) for place, size in enumerate(shape)]


def join(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


def keep_long(shape: Iterable[int]) -> list[int]:
    """The sizes that are not one."""
    return [int(size) for size in shape if size != 1]


def name_dims(dims: Collection[int], rank: int) -> str:
    """The dimensions of a tensor of that rank that are reduced."""
    return EVERYWHERE if len(dims) == rank else join(sorted(dims))


def name_reach(shape: Sequence[int], strides: Sequence[int], result: Sequence[int], is_given: bool) -> str:
    """Where an operand broadcasts, the dimensions along which it varies; of a computed one those where it does not.

    Either way the number of outer dimensions is left open: a column's mean is "not -1" in a matrix and in a batch of
    matrices, a parameter for each column is "-1" in both.
    """
    missing = len(result) - len(shape)
    pairs = zip(reversed(shape), reversed(result), strict=False)
    if missing < 0 or any(size not in (1, wanted) for size, wanted in pairs):
        return EVERYWHERE
    varies = {
        place - len(result): place >= missing and shape[place - missing] != 1 and strides[place - missing] != 0
        for place, size in enumerate(result)
        if size != 1
    }
    return _name_varying(varies, is_given)


def name_spread(shape: Sequence[int], dims: Collection[int]) -> str:
    """The reach of a computed value that is the same along these dimensions of a result of that shape."""
    return _name_varying(
        {place - len(shape): place - len(shape) not in dims for place, size in enumerate(shape) if size != 1}, False
    )


def _name_varying(varies: dict[int, bool], is_given: bool) -> str:
    if all(varies.values()):
        return EVERYWHERE
    if not any(varies.values()):
        return "nowhere"
    named = join(dim for dim, varying in varies.items() if varying == is_given)
    return named if is_given else f"not {named}"


def match_view(shape: Sequence[int], view: Sequence[int]) -> list[Group] | None:
    """Groups of dimensions longer than one that a view makes of each other, from the last on; null for no such view."""
    old = [(place - len(shape), int(size)) for place, size in enumerate(shape) if size != 1]
    new = [(place - len(view), int(size)) for place, size in enumerate(view) if size != 1]
    groups: list[Group] = []
    while old and new:
        (dim, size), (other, length) = old.pop(), new.pop()
        dims, others = [dim], [other]
        while size != length:
            waiting, taken = (old, dims) if size < length else (new, others)
            if not waiting:
                return None
            next_dim, next_size = waiting.pop()
            taken.append(next_dim)
            if taken is dims:
                size *= next_size
            else:
                length *= next_size
        groups.append((tuple(sorted(dims)), tuple(sorted(others))))
    return None if old or new else groups


def name_view(groups: Sequence[Group]) -> str:
    """How many dimensions become how many, from the last on; outer ones that stay are left out."""
    texts = [f"{len(dims)}:{len(others)}" for dims, others in groups]
    while texts and texts[-1] == "1:1":
        texts.pop()
    return "groups=" + ",".join(texts)


def count_kept(groups: Sequence[Group]) -> int:
    """How many of the last dimensions a view leaves as they are."""
    kept = 0
    for dims, others in groups:
        if dims != others or len(dims) != 1:
            break
        kept += 1
    return kept
