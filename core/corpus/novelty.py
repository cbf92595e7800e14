"""Held-out tasks that no training task equals, whatever its names and constants: docs/decisions/0007.

The split of a Level 1 task comes from its sizes, that of a Level 2 task from its chain of operations. Neither is enough
for a held-out task to be one that no model has seen: ReLU is ReLU at every size, and two chains may be one computation.

- At Level 1 some structures of the second part's families are reserved: no task that has one is for training. The
  families keep most of theirs, and every operation of a reserved structure is trained on in another arrangement. The
  first part's families have none, because the shipped policy was trained on all that they have.
- At Level 2 a task counts as novel only if none of its kin is for training: the chains that are the same computation
  because sums and products may be reordered, a layer's bias is an added vector and a norm's weights are a gain and a
  bias, `hardtanh` is `clamp`, and a number may multiply before a square or after it.

Composed tasks that are one computation have one normal form (`normalize`), so that a split keeps them together. What an
older family may hold out is not for training there either: reserved structures of single operators, and chains that
another family writes too.

This module is pure and knows no graph. That its rules agree with operation graphs is checked by sample, in
`tests/harness/tasks/test_decontamination.py` and by
`tritonrl tasks validate --suite full:unseen --against full:train`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, permutations, product

from attrs import frozen

from .builder.spec import Spec
from .composition.program import Node, ProgramSpec

Composition = tuple[object, ...]


@frozen(kw_only=True)
class Reserved:
    """A structure of a Level 1 family: where each thing that is named has one of these values.

    `dims` count from the end; `ranks` are numbers of dimensions; `sides` are the sides on which a window is wider
    than one, from the end too; `options` are values of the task's options.
    """

    producers: tuple[str, ...] = ()
    dims: tuple[int, ...] = ()
    ranks: tuple[int, ...] = ()
    sides: tuple[tuple[int, ...], ...] = ()
    options: tuple[tuple[str, str | int], ...] = ()
    min_groups: int = 0

    def covers(self, spec: Spec) -> bool:
        """Return whether the task has this structure."""
        rank = len(spec.sizes)
        return (
            (not self.producers or spec.producer in self.producers)
            and (not self.dims or int(spec.option("dim")) - rank in self.dims)
            and (not self.ranks or rank in self.ranks)
            and (not self.sides or _wide_sides(spec) in self.sides)
            and all(spec.option(name) == value for name, value in self.options)
            and int(spec.option("groups")) >= self.min_groups
        )


RESERVED: dict[str, tuple[Reserved, ...]] = {
    "layer_norm_nd": (Reserved(ranks=(5,)),),
    "prelu": (Reserved(ranks=(3,), options=(("shared", 0),)),),
    "dim_reduction": (
        Reserved(producers=("min",), dims=(-3,)),
        Reserved(producers=("logsumexp",), dims=(-2,)),
        Reserved(producers=("sum_squares",), dims=(-3,)),
    ),
    "dim_argmax": (Reserved(producers=("argmin",), dims=(-3,)),),
    "dim_softmax": (Reserved(producers=("log_softmax",), dims=(-2,)),),
    "l1_norm": (Reserved(producers=("l1_mean",), dims=(-3,)), Reserved(producers=("l1_clamped",), dims=(-2,))),
    "l2_norm": (Reserved(producers=("l2_clamped",), dims=(-3,)),),
    "cumulative_sum": (Reserved(producers=("exclusive",), dims=(-2,)),),
    "cumulative_product": (Reserved(producers=("reverse",), dims=(-1,)),),
    "full_reduction": (Reserved(producers=("l1norm",)),),
    "element_loss": (
        Reserved(producers=("soft_margin",), options=(("reduction", "sum"),)),
        Reserved(producers=("kl_div",), options=(("reduction", "sum"),)),
    ),
    "row_loss": (Reserved(producers=("triplet",), options=(("reduction", "none"),)),),
    "activation": (Reserved(producers=("softshrink",)), Reserved(producers=("squared_relu",))),
    "batched_matmul": (
        Reserved(producers=("batch",), options=(("layout", "tt"),)),
        Reserved(producers=("heads",), options=(("layout", "tn"),)),
    ),
    "structured_matmul": (Reserved(producers=("lower_left",)),),
    "conv": (Reserved(producers=("conv2d",), sides=((-2,),)),),
    "depthwise_conv": (Reserved(producers=("depthwise_conv2d",), sides=((-1,),)),),
    "grouped_conv": (Reserved(producers=("grouped_conv2d",), sides=((-1,),)),),
    "separable_conv": (Reserved(producers=("separable_conv2d",), sides=((-2,),)),),
    "transposed_conv": (Reserved(producers=("conv_transpose1d",), min_groups=2),),
    "max_pool": (Reserved(producers=("max_pool3d",), sides=((-2, -1),)),),
}
"""By family. Chosen before anything was trained on these families, as arrangements of what the rest of them teaches."""

_SUMS = frozenset({"bias", "residual", "shift", "subtract"})
_PRODUCTS = frozenset({"gain", "gate", "scale", "factor", "glu"})
_SAME = {"clamp": ("clamp", "hardtanh"), "hardtanh": ("hardtanh", "clamp")}
_PRODUCT_OF_TRANSPOSED = (("linear_chain", "linear_no_bias"), ("matmul_chain", "nt"))


def is_reserved(spec: Spec) -> bool:
    """Return whether a Level 1 task has a structure that training leaves out."""
    return spec.level == 1 and any(rule.covers(spec) for rule in RESERVED.get(spec.family, ()))


def find_kin(spec: Spec) -> frozenset[Composition]:
    """Return the compositions of Level 2 that may be the same computation as this task, its own among them."""
    names = tuple(applied.operation.name for applied in spec.chain)
    found = {(*head, *chain) for head, own in _read_heads(spec, names) for chain in own}
    return frozenset({spec.composition, *found})


def _wide_sides(spec: Spec) -> tuple[int, ...]:
    widths = str(spec.option("kernel", "")).split(",")
    return tuple(place - len(widths) for place, width in enumerate(widths) if width != "1")


def _read_heads(spec: Spec, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, str], set[tuple[str, ...]]]]:
    """Return each (family, producer) that may begin the same computation, with the chains that may then follow it."""
    own = (spec.family, spec.producer)
    implied = _find_own_step(spec)
    if spec.family in ("linear_chain", "matmul_chain") and (implied or own in _PRODUCT_OF_TRANSPOSED):
        for head in _PRODUCT_OF_TRANSPOSED:
            yield head, set(_arrange(names if implied is None else (implied, *names)))
        yield ("linear_chain", "linear"), set(_absorb("bias", names if implied is None else (implied, *names)))
        return
    if spec.producer == "layer_norm" or (spec.family, spec.producer) == ("batch_norm_chain", "running"):
        whole = ("gain", "bias", *names) if spec.option("affine") else names
        chains = set(_arrange(whole))
        chains |= {chain[2:] for chain in chains if chain[:2] == ("gain", "bias")}
        yield own, {chain for chain in chains if len(set(chain)) == len(chain)}
        return
    for producer in _find_alike_producers(spec):
        if _find_possible_step(spec) is None:
            yield (spec.family, producer), set(_arrange(names))
            continue
        whole = names if implied is None else (implied, *names)
        # with its own bias or weight, or with that as the chain's first step
        chains = {*_absorb(_find_possible_step(spec) or "", whole), *_arrange(whole)}
        yield (spec.family, producer), {chain for chain in chains if len(set(chain)) == len(chain)}


def _find_possible_step(spec: Spec) -> str | None:
    """Return the step of a chain that such a layer may have built in: a bias that it adds, a weight that multiplies."""
    if spec.family in ("linear_chain", "conv_chain", "transposed_conv_chain", "conv_reduce_chain"):
        return "bias"
    return "gain" if spec.producer == "rms_norm" else None


def _find_own_step(spec: Spec) -> str | None:
    """Return the step that the layer of this very task has built in, if any."""
    if spec.producer == "linear" or (_find_possible_step(spec) == "bias" and spec.option("bias")):
        return "bias"
    return "gain" if spec.producer == "rms_norm" and spec.option("affine") else None


def _find_alike_producers(spec: Spec) -> tuple[str, ...]:
    """Return the producers that are one where windows are this narrow: pooling along one side, one tap."""
    sides = _wide_sides(spec) if spec.option("kernel", "") else ()
    kind, rank = spec.producer[:-2], spec.producer[-2:]
    if spec.family == "pooling_chain" and rank in ("1d", "2d") and len(sides) < 2:
        return (f"{kind}1d", f"{kind}2d")
    if spec.family.startswith("conv") and "conv" in spec.producer and not sides:
        plain = spec.producer.removeprefix("pointwise_")
        return (plain, f"pointwise_{plain}")
    return (spec.producer,)


def _arrange(names: tuple[str, ...]) -> set[tuple[str, ...]]:
    """Return the chains equal to this one up to the order of neighbouring sums or products, and of scale and square."""
    found: set[tuple[str, ...]] = set()
    waiting = [names]
    while waiting:
        for chain in _reorder(waiting.pop()):
            if chain in found:
                continue
            found.add(chain)
            for place in range(len(chain) - 1):
                if set(chain[place : place + 2]) == {"scale", "square"}:
                    waiting.append((*chain[:place], chain[place + 1], chain[place], *chain[place + 2 :]))
    return found


def _reorder(names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the chains equal to this one with neighbouring sums or products in another order, and with other names."""
    runs = []
    for kind, members in groupby(names, lambda name: "+" if name in _SUMS else "*" if name in _PRODUCTS else name):
        run = tuple(members)
        runs.append(set(permutations(run)) if kind in "+*" else {run})
    for parts in product(*runs):
        chain = tuple(name for part in parts for name in part)
        yield from product(*(_SAME.get(name, (name,)) for name in chain))


def _absorb(step: str, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the chains that are left where the layer does that step itself, among the leading sums or products."""
    kind = _SUMS if step in _SUMS else _PRODUCTS
    for chain in _arrange(names):
        for place, name in enumerate(chain):
            if name not in kind:
                break
            if name == step:
                yield (*chain[:place], *chain[place + 1 :])


_NAMES = {"hardtanh": "clamp", "relu6": "clamp", "divide": "scale", "sigmoid_gate": "silu", "minus": "shift"}
_NUMBERS = frozenset({"scale", "shift"})
"""Several of a kind that follow one another are one."""
_NEW = frozenset({"mish", "factor", "softcap", "glu"})
"""Functions that no older family has in a chain."""
OPERATORS_WITH_RESERVED = frozenset(
    {"any_norm", "any_reduction", "any_position", "any_softmax", "any_scan", "any_matmul", "any_conv", "any_pool"}
    | {"any_conv_transpose"}
)
"""The families that `is_reserved_operator` finds something in."""


def normalize(spec: ProgramSpec) -> tuple[object, ...]:
    """Return the normal form of a composition: its operations, without numbers and sizes."""
    kinds = [kind for node in spec.computing for kind in _kinds(node)]
    found: list[object] = [kinds[0]]
    has_bias = spec.level == 2 and any(node.op in ("conv", "linear") for node in spec.nodes)
    for group, members in groupby(kinds[1:], _group):
        run = list(members)
        if group in "+*":
            run = sorted((kind for at, kind in enumerate(run) if kind not in _NUMBERS & {*run[:at]}), key=str)
        if has_bias and group == "+" and len(found) == 1:
            run = [kind for kind in run if kind != "bias"]
        found += run
    for place in range(len(found) - 1):
        if found[place : place + 2] == ["square", "scale"]:
            found[place : place + 2] = ["scale", "square"]
    return tuple(found)


def _kinds(node: Node) -> tuple[object, ...]:
    """Return what a node does, a soft cap as the three operations that it is."""
    kind = _kind(node)
    return ("scale", "tanh", "scale") if kind == "softcap" else (kind,)


def _kind(node: Node) -> object:
    if node.applied is not None:
        name = node.applied.operation.name
        return _NAMES.get(name, name)
    window = node.window
    shape = (window.rank, window.is_transposed) if window is not None else ()
    structure = [value for name, value in node.options if name in ("kind", "dims", "layout", "is_causal", "running")]
    return (node.op, *shape, *structure)


def _group(kind: object) -> str:
    return "+" if kind in _SUMS else "*" if kind in _PRODUCTS else str(kind)


def _find_kernels(spec: ProgramSpec) -> list[int]:
    """Return the places of the operations after the first that have a kernel of their own."""
    return [place for place, node in enumerate(spec.computing) if place and node.op != "point"]


def goes_on(spec: ProgramSpec) -> bool:
    """Return whether a chain has what no older family has: a step after a second kernel, three kernels, or a loss."""
    kernels = _find_kernels(spec)
    is_last = len(kernels) == 1 and kernels[0] == len(spec.computing) - 1
    return bool(kernels) and (not is_last or spec.computing[-1].op == "cross_entropy")


def has_tail(spec: ProgramSpec) -> bool:
    """Return whether a chain has a second kernel."""
    return bool(_find_kernels(spec))


def find_older(spec: ProgramSpec) -> Iterator[Spec]:
    """Yield what older families call the same head and pointwise steps."""
    head, *steps = spec.computing
    chain = tuple(node.applied for node in steps if node.applied is not None)
    if any(applied.operation.name in _NEW for applied in chain):
        return
    options: dict[str, str | int | float] = {"bias": head.number("bias"), "affine": head.number("affine")}
    if head.window is not None:
        options["kernel"] = ",".join(map(str, head.window.kernel))
    for family, producer in _name_head(head):
        yield Spec(level=2, family=family, producer=producer, sizes=(), chain=chain, options=tuple(options.items()))


def _name_head(head: Node) -> Iterator[tuple[str, str]]:
    kind, window = str(head.option("kind")), head.window
    match head.op:
        case "conv":
            assert window is not None
            if window.is_transposed:
                yield "transposed_conv_chain", f"conv_transpose{window.rank}d"
                return
            groups = head.number("groups")
            grouped = ("depthwise_conv",) if groups < 0 else ("grouped_conv",)
            for name in grouped if groups != 1 else ("conv", "pointwise_conv"):
                yield "conv_chain", f"{name}{window.rank}d"
        case "linear":
            yield "linear_chain", "linear" if head.option("bias") else "linear_no_bias"
        case "matmul":
            yield "matmul_chain", str(head.option("layout"))
        case "pool":
            assert window is not None
            yield "pooling_chain", f"{kind}_pool{window.rank}d"
        case "norm":
            match kind:
                case "batch":
                    yield "batch_norm_chain", "running" if head.option("running") else "batch"
                case "group" | "instance":
                    yield "group_norm_chain", f"{kind}_norm"
                case _:
                    yield "norm_chain", f"{kind}_norm"


def is_reserved_operator(spec: ProgramSpec) -> bool:
    """Return whether a single operator has a structure that older families leave out of training."""
    node = spec.computing[0]
    kind, rank = str(node.option("kind")), len(spec.nodes[node.inputs[0]].shape)
    place = node.dims[0] - rank if node.dims else 0
    match node.op:
        case "norm":
            return kind == "layer" and rank == 5
        case "reduce":
            return (kind, place) in {("min", -3), ("logsumexp", -2)}
        case "position":
            return (kind, place) == ("argmin", -3)
        case "softmax":
            return (kind, place) in {("log_softmax", -2), ("l1_normalize", -2), ("l2_normalize", -3)}
        case "scan":
            reserved = {("exclusive", -2, 0), ("reverse", -1, 1)}
            return (kind, place, node.number("is_product")) in reserved
        case "matmul":
            ranks = tuple(len(spec.nodes[at].shape) for at in node.inputs)
            return (node.option("layout"), ranks) in {("tt", (3, 3)), ("tn", (4, 4))}
        case "conv" | "pool":
            return _is_reserved_window(node)
        case _:
            return False


def has_usual_form(spec: ProgramSpec) -> bool:
    """Return whether a task may be one of other ranks, or of another head, that training has.

    A norm of rows is that whatever dimensions are before them, and so is a linear layer, which is a product too, with
    what follows it.
    """
    head = spec.computing[0]
    if head.op == "norm":
        return len(head.dims) == 1
    if head.op == "matmul":
        return spec.level == 2 and head.option("layout") == "nt"
    rank = len(spec.nodes[head.inputs[0]].shape)
    return head.op == "linear" and (rank > 2 or not head.number("bias"))


def _is_reserved_window(node: Node) -> bool:
    window = node.window
    assert window is not None
    wide = tuple(side - window.rank for side, width in enumerate(window.kernel) if width > 1)
    if node.op == "pool":
        return node.option("kind") == "max" and window.rank == 3 and wide == (-2, -1)
    if window.is_transposed:
        return window.rank == 1 and node.number("groups") > 1
    side = (-2,) if node.number("groups") == 1 else (-1,)
    return window.rank == 2 and wide == side
