"""From nodes to launches: an operation that reads several elements is a kernel, and pointwise steps are its end.

A pointwise step joins the kernel before it where nobody else reads that kernel's result and all that the step reads is
there before the kernel runs. Views cost nothing. Kernels of one text are written once and called again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from attrs import Factory, define, evolve, frozen

from ..builder.draw import Draw
from ..builder.wording import Kernel
from .launches import Epilogue, Function, Step, own_weights
from .product_kernels import write_attention, write_linear, write_matmul
from .program import VIEWS, Node, ProgramSpec
from .reference import Wording
from .row_kernels import (
    write_concatenation,
    write_cross_entropy,
    write_elements,
    write_map,
    write_matvec,
    write_norm,
    write_pair,
    write_position,
    write_reduction,
    write_scan,
)
from .window_kernels import write_convolution, write_pooling

_WITHOUT_STEPS = ("position", "attention", "scan", "concat", "cross_entropy")
"""Operations whose kernels have no room for steps at their end."""


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
        if node.op in VIEWS:
            continue
        is_step = node.op == "point" or (node.op == "norm" and bool(node.option("running")))
        previous = groups[-1] if groups else None
        joins = (
            is_step
            and previous is not None
            and node.inputs[0] == previous.last
            and readers[previous.last] == 1
            and all(origin[other] < previous.head for other in node.inputs[1:])
            and nodes[previous.head].op not in _WITHOUT_STEPS
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
        origin.append(-1 if node.op == "input" else origin[node.inputs[0]] if node.op in VIEWS else place)
    return origin


@define
class Lowering:
    """Writes the functions of one answer and the forward pass that calls them."""

    spec: ProgramSpec
    wording: Wording
    functions: list[Function] = Factory(list)
    calls: list[tuple[str, Function] | str] = Factory(list)
    variables: dict[int, str] = Factory(dict)

    def write(self) -> Kernel:
        """Write all kernels, functions and calls."""
        nodes = self.spec.nodes
        last_of = {made.last: made for made in group(nodes)}
        for place, node in enumerate(nodes):
            if node.op == "input":
                self.variables[place] = node.name
            elif node.op in VIEWS:
                self._write_view(place, node)
            elif place in last_of:
                made = last_of[place]
                function = self._lower(made)
                if shown := self.wording.dims.get(made.head):
                    numbers = ((name, f"dim={shown}" if name == "dim" else value) for name, value in function.numbers)
                    function = evolve(function, numbers=tuple(numbers))
                self.variables[place] = node.name
                self.functions.append(function)
                self.calls.append((node.name, function))
        return self._assemble()

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

    def _lower(self, made: Group) -> Function:
        taken = set(_TAKEN)
        epilogue = Epilogue([self._step(place, taken) for place in made.steps])
        function = self._write(made, epilogue)
        # a name that says all its steps is a plan for whoever writes the kernel after the call
        name = "_".join((function.name, *(step.name for step in epilogue.steps)))
        return evolve(function, name=name, numbers=(*function.numbers, *epilogue.numbers))

    def _write(self, made: Group, epilogue: Epilogue) -> Function:
        nodes = self.spec.nodes
        node = nodes[made.head]
        arguments = [self.variables[place] for place in node.inputs if place in self.variables]
        attribute = self.wording.attributes.get(made.head, "")
        module = f"self.{attribute}"
        if made.steps and made.steps[0] == made.head:
            return write_elements(arguments[0], epilogue)
        x, kind, rank = arguments[0], str(node.option("kind")), len(nodes[node.inputs[0]].shape)
        keeps = bool(node.option("keeps"))
        if made.head == self.wording.own:
            bias = "self.bias" if node.option("bias") else "None"
            window = node.window
            if window is None:
                return own_weights(write_linear(x, "", rank, epilogue), (("weight", module), ("bias", bias)))
            convolution = write_convolution(window.rank, False, False, x, "", epilogue, is_own=True)
            numbers = (("stride", f"stride={window.stride[0]}"), ("padding", f"padding={window.padding[0]}"))
            return own_weights(convolution, (("weight", module), ("bias", bias)), numbers)
        match node.op:
            case "conv":
                window = node.window
                assert window is not None
                has_groups = node.number("groups") != 1
                is_same = made.head in self.wording.same
                return write_convolution(window.rank, window.is_transposed, has_groups, x, module, epilogue, is_same)
            case "pool":
                return write_pooling(rank - 2, kind == "max", x, module, epilogue)
            case "linear":
                return write_linear(x, module, rank, epilogue)
            case "matmul":
                turned = ".T" if rank == 2 else ".transpose(-2, -1)"
                ways = zip(arguments, str(node.option("layout")), strict=True)
                a, b = (f"{argument}{turned if way == 't' else ''}" for argument, way in ways)
                return write_matmul((a, b), rank, epilogue)
            case "attention":
                mask = arguments[3] if len(arguments) > 3 else ""
                return write_attention(
                    tuple(arguments[:3]), bool(node.option("is_causal")), node.number("num_heads"), mask
                )
            case "position":
                return write_position(kind, node.dims[0], x, keeps)
            case "scan":
                mask = arguments[1] if len(arguments) > 1 else ""
                return write_scan(kind, node.dims[0], x, mask, bool(node.option("is_product")))
            case "concat":
                return write_concatenation((x, arguments[1]), rank)
            case "cross_entropy":
                return write_cross_entropy((x, arguments[1]), epilogue)
            case "reduce":
                return write_reduction(kind, rank, node.dims, keeps, x, epilogue)
            case "pair":
                return write_pair(kind, node.dims[0], arguments, epilogue)
            case "matvec":
                return write_matvec(node.dims[0], keeps, arguments, epilogue)
            case "softmax":
                return write_map(kind, node.dims[0], x, epilogue)
            case "norm" if kind == "rms":
                eps = _write_number(float(node.option("eps")))
                return write_map(kind, node.dims[0], x, epilogue, eps, module if node.option("affine") else "")
            case "norm":
                return write_norm(kind, rank, x, module, epilogue)
            case _:
                raise ValueError(f"no kernel for {node.op}")

    def _step(self, place: int, taken: set[str]) -> Step:
        node = self.spec.nodes[place]
        attribute = self.wording.attributes.get(place, "")
        if node.op == "norm":
            names = ("mean", "var", "gamma", "beta") if node.option("affine") else ("mean", "var")
            fields = ("running_mean", "running_var", "weight", "bias")
            spelling = f"{{x}} = ({{x}} - {{v0}}) / tl.sqrt({{v1}} + {_write_number(float(node.option('eps')))})"
            spelling += "\n{x} = {x} * {v2} + {v3}" if node.option("affine") else ""
            held = zip(names, fields, strict=False)
            fixed = tuple((name, f"self.{attribute}.{field}") for name, field in held)
            return Step(name="batch_norm", spelling=spelling, operands=fixed, kind="channel", axis=1)
        applied, kind = node.applied, str(node.option("operand"))
        assert applied is not None
        operands: tuple[tuple[str, str], ...] = ()
        if kind in ("channel", "scalar"):
            name = applied.operation.name
            operands = (("offset" if name == "bias" else name, f"self.{attribute}"),)
        elif kind:
            operands = ((_OPERAND_NAMES.get(kind, "r"), self._fill(node)),)
        operands = tuple((_call(name, taken), argument) for name, argument in operands)
        numbers = [_call(_NUMBER_NAMES.get(name, name), taken) for name, _ in applied.operation.numbers]
        # one spelling for each function: what no prompt tells, a policy can only guess
        spelled = applied.triton("{x}", Draw(0), "{v}", numbers)
        return Step(
            name=_STEP_NAMES.get(applied.operation.name, applied.operation.name),
            applied=applied,
            spelling=f"{{x}} = {spelled}",
            operands=operands,
            numbers=tuple((name, f"{name}={value!r}") for name, value in zip(numbers, applied.values, strict=True)),
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


_NUMBER_NAMES = {"weight": "share"}
_STEP_NAMES = {"sigmoid_gate": "silu", "swish": "silu"}
"""What an answer calls functions that are another one written out."""
_TAKEN = (
    *("x", "layer", "out", "dim", "keepdim", "eps", "weight", "bias", "stride", "padding"),
    *("acc", "offs", "mask", "row", "rows", "first", "part", "top", "mean"),
)
"""What kernels and the functions that launch them call something else."""
_OPERAND_NAMES = {"tensor": "r", "plane": "gate", "number": "s"}


def _write_number(value: float) -> str:
    """Write a number as people do, so that it is found in the prompt: 1e-5, where Python writes 1e-05."""
    return repr(value).replace("e-0", "e-")
