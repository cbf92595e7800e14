"""From nodes to launches: an operation that reads several elements is a kernel, and pointwise steps are its end.

A pointwise step joins the kernel before it where nobody else reads that kernel's result and all that the step reads is
there before the kernel runs. Views cost nothing. Kernels of one text are written once and called again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from attrs import Factory, define, frozen

from ..builder.draw import Draw
from ..builder.wording import Kernel
from .launches import Epilogue, Function, Step
from .product_kernels import write_attention, write_linear, write_matmul
from .reference import Wording
from .row_kernels import (
    find_layout,
    with_subtracted_target,
    write_concatenation,
    write_elements,
    write_position,
    write_rows,
    write_scan,
)
from .statistics import MAPS, REDUCTIONS
from .tensors import Node, ProgramSpec
from .window_kernels import WindowNames, write_convolution, write_pooling

_VIEWS = ("input", "flatten", "tokens", "dropout")
FEW_TERMS = 64
"""Of a filter: a convolution's sums are direct up to so many."""


@frozen(kw_only=True)
class Group:
    """A kernel's node, where it has one of its own, and the pointwise nodes after it."""

    head: int
    steps: tuple[int, ...] = ()

    @property
    def last(self) -> int:
        return self.steps[-1] if self.steps else self.head


def group(nodes: Sequence[Node]) -> list[Group]:
    """Divide the nodes that compute into kernels; views belong to none."""
    readers = [0] * len(nodes)
    for node in nodes:
        for place in node.inputs:
            readers[place] += 1
    origin = _find_origins(nodes)
    groups: list[Group] = []
    for place, node in enumerate(nodes):
        if node.op in _VIEWS:
            continue
        is_step = node.op == "point" or (node.op == "norm" and bool(node.option("running")))
        previous = groups[-1] if groups else None
        joins = (
            is_step
            and previous is not None
            and node.inputs[0] == previous.last
            and readers[previous.last] == 1
            and all(origin[other] < previous.head for other in node.inputs[1:])
            and _fits(nodes, previous, node)
        )
        if joins and previous is not None:
            groups[-1] = Group(head=previous.head, steps=(*previous.steps, place))
        elif is_step:
            groups.append(Group(head=place, steps=(place,)))
        else:
            groups.append(Group(head=place))
    return groups


def _find_origins(nodes: Sequence[Node]) -> list[int]:
    """Return for each node the latest one that computes what it holds."""
    origin: list[int] = []
    for place, node in enumerate(nodes):
        origin.append(-1 if node.op == "input" else origin[node.inputs[0]] if node.op in _VIEWS else place)
    return origin


def _fits(nodes: Sequence[Node], previous: Group, node: Node) -> bool:
    """Return whether a kernel's end has room for a step: positions have no steps, attention and scans none either."""
    return nodes[previous.head].op not in ("position", "attention", "scan", "concat", "cross_entropy")


@define
class Lowering:
    """Writes the functions of one answer and the forward pass that calls them."""

    spec: ProgramSpec
    wording: Wording
    draw: Draw
    functions: list[Function] = Factory(list)
    calls: list[tuple[str, Function] | str] = Factory(list)
    spellings: dict[object, str] = Factory(dict)
    variables: dict[int, str] = Factory(dict)

    def write(self) -> Kernel:
        """Write all kernels, functions and calls."""
        nodes = self.spec.nodes
        shares = self._count_windows()
        last_of = {made.last: made for made in group(nodes)}
        for place, node in enumerate(nodes):
            if node.op == "input":
                self.variables[place] = node.name
            elif node.op in _VIEWS:
                self._write_view(place, node)
            elif place in last_of:
                made = last_of[place]
                function = self._lower(made, shares)
                self.variables[place] = node.name
                self.functions.append(function)
                self.calls.append((node.name, function))
        return self._assemble()

    def _count_windows(self) -> Mapping[str, int]:
        """Return how many different windows each kind of layer has: shared kernels are given their numbers."""
        found: dict[str, set[object]] = {}
        for node in self.spec.nodes:
            if node.window is not None:
                found.setdefault(_window_family(node), set()).add(node.window)
        return {kind: len(windows) for kind, windows in found.items()}

    def _write_view(self, place: int, node: Node) -> None:
        source = self.variables[node.inputs[0]]
        if node.op == "dropout":
            self.variables[place] = source
            return
        view = "flatten(1)" if node.op == "flatten" else "flatten(2).transpose(1, 2).contiguous()"
        self.calls.append(f"{node.name} = {source}.{view}")
        self.variables[place] = node.name

    def _assemble(self) -> Kernel:
        texts: dict[str, str] = {}
        totals: dict[str, int] = {}
        for function in self.functions:
            if function.text not in texts:
                totals[function.name] = totals.get(function.name, 0) + 1
                texts[function.text] = function.name
        numbers: dict[str, int] = {}
        names: dict[str, str] = {}
        sources = []
        by_text = {function.text: function for function in self.functions}
        for text, base in texts.items():
            numbers[base] = numbers.get(base, 0) + 1
            names[text] = base if totals[base] == 1 else f"{base}{numbers[base]}"
            sources.append(by_text[text].write(names[text]))
        lines = []
        for call in self.calls:
            if isinstance(call, str):
                lines.append(call)
            else:
                lines.append(f"{call[0]} = {call[1].call(names[call[1].text])}")
        result = self.variables[len(self.spec.nodes) - 1]
        if lines and lines[-1].startswith(f"{result} = "):
            result = lines.pop().partition(" = ")[2]
        return Kernel(
            source="\n\n".join(sources).removeprefix("@triton.jit\n").rstrip("\n") + "\n",
            tensors=(),
            host=lambda _: lines,
            result=result,
            style=f"{len(sources)} of {sum(not isinstance(call, str) for call in self.calls)}",
        )

    def _lower(self, made: Group, shares: Mapping[str, int]) -> Function:
        nodes = self.spec.nodes
        node = nodes[made.head]
        taken: set[str] = set()
        epilogue = Epilogue(steps=[self._step(place, taken) for place in made.steps])
        epilogue.take()
        arguments = [self.variables[place] for place in node.inputs if place in self.variables]
        attribute = self.wording.attributes.get(made.head, "")
        module = f"self.{attribute}"
        if made.steps and made.steps[0] == made.head:
            return write_elements("pointwise", arguments[0], epilogue)
        shape = nodes[node.inputs[0]].shape
        rank = len(shape)
        match node.op:
            case "conv":
                return self._write_convolution(node, arguments[0], module, shares, epilogue)
            case "pool":
                assert node.window is not None
                names = WindowNames(
                    window=node.window, takes_numbers=shares[_window_family(node)] > 1, fixes_kernel=True
                )
                is_max = node.option("kind") == "max"
                return write_pooling("max_pool" if is_max else "avg_pool", names, is_max, arguments[0], epilogue)
            case "linear":
                return write_linear("linear", bool(node.option("bias")), arguments[0], module, rank, epilogue)
            case "matmul":
                ranks = (rank, len(nodes[node.inputs[1]].shape))
                pair = (arguments[0], arguments[1])
                return write_matmul("matmul", str(node.option("layout")), pair, ranks, epilogue)
            case "attention":
                mask = arguments[3] if len(arguments) > 3 else ""
                heads = node.number("num_heads")
                return write_attention(
                    "attention", tuple(arguments[:3]), bool(node.option("is_causal")), 0.0, heads, mask
                )
            case "position":
                kind = str(node.option("kind"))
                return write_position(
                    kind, kind == "argmax", rank, node.dims[0], arguments[0], bool(node.option("keeps"))
                )
            case "scan":
                name = "cumprod" if node.option("is_product") else "cumsum"
                mask = arguments[1] if len(arguments) > 1 else ""
                kind = str(node.option("kind"))
                return write_scan(name, kind, node.dims[0], arguments[0], mask, bool(node.option("is_product")))
            case "concat":
                return write_concatenation("concat", (arguments[0], arguments[1]), rank)
            case "cross_entropy":
                rows = self._write_rows(node, "logsumexp", (1,), arguments[0], "cross_entropy", epilogue)
                return with_subtracted_target(rows, arguments[1])
            case "reduce":
                kind = str(node.option("kind"))
                return self._write_rows(node, kind, node.dims, arguments[0], kind, epilogue)
            case "softmax":
                kind = str(node.option("kind"))
                return self._write_rows(node, kind, node.dims, arguments[0], kind, epilogue)
            case "norm":
                return self._write_norm(node, arguments[0], module, epilogue)
            case _:
                raise ValueError(f"no kernel for {node.op}")

    def _write_convolution(
        self, node: Node, argument: str, module: str, shares: Mapping[str, int], epilogue: Epilogue
    ) -> Function:
        window = node.window
        assert window is not None
        channels = self.spec.nodes[node.inputs[0]].shape[1].declared
        groups = node.number("groups")
        is_depthwise = groups < 0
        is_direct = is_depthwise or (self.spec.level < 3 and channels // groups * window.taps <= FEW_TERMS)
        names = WindowNames(window=window, takes_numbers=shares[_window_family(node)] > 1)
        name = "conv_transpose" if window.is_transposed else "depthwise" if is_depthwise else "conv"
        return write_convolution(name, names, groups, is_direct, bool(node.option("bias")), argument, module, epilogue)

    def _write_rows(
        self, node: Node, kind: str, dims: tuple[int, ...], argument: str, name: str, epilogue: Epilogue
    ) -> Function:
        shape = self.spec.nodes[node.inputs[0]].shape
        function = REDUCTIONS.get(kind) or MAPS[kind]
        length = 1
        for dim in dims:
            length *= shape[dim].declared
        return write_rows(
            f"{name}_reduce" if name in ("sum", "max", "min") else name,
            function,
            len(shape),
            dims,
            find_layout(len(shape), dims, length, function),
            argument,
            bool(node.option("keeps")),
            0.0,
            (),
            -1,
            0,
            epilogue,
        )

    def _write_norm(self, node: Node, argument: str, module: str, epilogue: Epilogue) -> Function:
        shape = self.spec.nodes[node.inputs[0]].shape
        rank, kind = len(shape), str(node.option("kind"))
        affine: tuple[tuple[str, str], ...] = ()
        if node.option("affine"):
            affine = (("weight", f"{module}.weight"), ("bias", f"{module}.bias"))
        axis, groups = 1, 0
        match kind:
            case "batch":
                dims = tuple(dim for dim in range(rank) if dim != 1)
            case "group":
                dims, groups = tuple(range(1, rank)), node.number("groups")
            case "instance":
                dims = tuple(range(2, rank))
            case "rms":
                dims, axis = node.dims, node.dims[0]
                affine = (("weight", module),) if node.option("affine") else ()
            case _:
                dims, axis = node.dims, -1
        length = 1
        for dim in dims:
            length *= shape[dim].declared
        function = MAPS["rms" if kind == "rms" else "standardize"]
        layout = find_layout(rank, dims, length // max(1, groups), function)
        return write_rows(
            f"{kind}_norm", function, rank, dims, layout, argument, False, float(node.option("eps")), affine, axis,
            groups, epilogue,
        )  # fmt: skip

    def _step(self, place: int, taken: set[str]) -> Step:
        node = self.spec.nodes[place]
        attribute = self.wording.attributes.get(place, "")
        if node.op == "norm":
            names = ("mean", "var", "gamma", "beta") if node.option("affine") else ("mean", "var")
            fields = ("running_mean", "running_var", "weight", "bias")
            spelling = f"{{x}} = ({{x}} - {{v0}}) / tl.sqrt({{v1}} + {node.option('eps')!r})"
            spelling += "\n{x} = {x} * {v2} + {v3}" if node.option("affine") else ""
            held = zip(names, fields, strict=False)
            fixed = tuple((name, f"self.{attribute}.{field}") for name, field in held)
            return Step(spelling=spelling, operands=fixed, kind="channel", axis=1)
        applied, kind = node.applied, str(node.option("operand"))
        assert applied is not None
        if applied.identity not in self.spellings:
            spelled = applied.triton("{x}", self.draw, "{v}")
            self.spellings[applied.identity] = spelled
        operands: tuple[tuple[str, str], ...] = ()
        if kind in ("channel", "scalar"):
            name = applied.operation.name
            operands = (("offset" if name == "bias" else name, f"self.{attribute}"),)
        elif kind:
            operands = ((_OPERAND_NAMES.get(kind, "r"), self._fill(node)),)
        operands = tuple((_call(name, taken), argument) for name, argument in operands)
        return Step(
            applied=applied,
            spelling=f"{{x}} = {self.spellings[applied.identity]}",
            operands=operands,
            kind=kind,
            axis=node.number("axis"),
        )

    def _fill(self, node: Node) -> str:
        """Write a step's further tensor, expanded where it has one element for several."""
        whole, other = (prod(dim.declared for dim in self.spec.nodes[place].shape) for place in node.inputs)
        text = self.variables[node.inputs[1]]
        is_less = node.option("operand") == "tensor" and other < whole
        return f"{text}.expand({self.variables[node.inputs[0]]}.shape).contiguous()" if is_less else text


def _call(name: str, taken: set[str]) -> str:
    """Return a name that no other operand of a kernel has."""
    while name in taken:
        name += "2"
    taken.add(name)
    return name


_OPERAND_NAMES = {"tensor": "r", "plane": "gate"}


def _window_family(node: Node) -> str:
    window = node.window
    assert window is not None
    if node.op == "pool":
        return f"pool {node.option('kind')} {window.rank}"
    return f"conv {window.rank} {window.is_transposed} {node.number('groups') < 0}"
