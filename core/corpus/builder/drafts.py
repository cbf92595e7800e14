"""Assembles a family's modules: chains of operations, a draft of the reference, and kernels with their launches.

A chain has lines in the reference, in the kernel and in the description. A draft gathers parameters, inputs and
statements while a family decides them, and takes a chain's operands in one call. A kernel names its parameters together
with what the host passes for each, so that the two cannot disagree. Host lines write `<x>` for the tensor `x`, which is
`x` or `self.x` as the launch is in a function or in `forward`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from attrs import Factory, define, frozen

from .draw import Draw
from .operations import Applied, Operand
from .wording import Kernel, Reference

_TENSOR = re.compile(r"<(\w+)>")


@frozen(kw_only=True)
class ChainNames:
    """The names of a chain's operands: the further input (or nothing), parameters, the number passed."""

    tensor: str
    vectors: tuple[str, ...]
    argument: str
    argument_value: str


def name_chain(chain: tuple[Applied, ...], draw: Draw) -> ChainNames:
    """Return names for what a chain reads."""
    has_tensor = any(applied.operation.operand is Operand.TENSOR for applied in chain)
    passed = [applied for applied in chain if applied.as_argument]
    return ChainNames(
        tensor=draw.choice(("r", "r", "skip", "other")) if has_tensor else "",
        vectors=tuple(applied.operation.name for applied in chain if applied.operation.operand is Operand.VECTOR),
        argument=passed[0].argument if passed else "",
        argument_value=repr(passed[0].values[0]) if passed else "",
    )


def operand_name(applied: Applied, names: ChainNames) -> str:
    """Return the operand's name: the further input, the parameter, or nothing."""
    match applied.operation.operand:
        case Operand.TENSOR:
            return names.tensor
        case Operand.VECTOR:
            return applied.operation.name
        case _:
            return ""


def forward_lines(expression: str, chain: tuple[Applied, ...], value: str, names: ChainNames) -> list[str]:
    """Write `forward`: the producer's expression and the chain on `value`, or one statement where there is none."""
    if not chain:
        return [f"return {expression}"]
    return [f"{value} = {expression}", *reference_lines(chain, value, names), f"return {value}"]


def reference_lines(chain: tuple[Applied, ...], value: str, names: ChainNames) -> list[str]:
    """Write the chain as statements on `value` in the reference's `forward`."""
    lines = []
    for applied in chain:
        operand = operand_name(applied, names)
        if applied.operation.operand is Operand.VECTOR:
            operand = f"self.{operand}"
        lines.append(f"{value} = {applied.torch(value, operand)}")
    return lines


def kernel_lines(
    chain: tuple[Applied, ...],
    value: str,
    names: ChainNames,
    draw: Draw,
    load: Callable[[str, Operand], str],
) -> list[str]:
    """Write the chain as statements on `value` in the kernel; `load` gives the expression that loads an operand."""
    lines = []
    for applied in chain:
        operand = operand_name(applied, names)
        loaded = load(operand, applied.operation.operand) if operand else ""
        lines.append(f"{value} = {applied.triton(value, draw, loaded)}")
    return lines


def describe(head: str, chain: tuple[Applied, ...], names: ChainNames) -> str:
    """Return one sentence: the producer, then each step."""
    return ", then ".join((head, *(applied.text(operand_name(applied, names)) for applied in chain))) + "."


@frozen(kw_only=True)
class Device:
    """One kernel: (parameter, what the host passes) pairs, constants with their values, and the body's lines."""

    name: str
    arguments: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, str], ...] = ()
    body: tuple[str, ...]

    @property
    def source(self) -> str:
        """Return the function's text, without its decorator."""
        names = [name for name, _ in self.arguments] + [f"{name}: tl.constexpr" for name, _ in self.constants]
        return f"def {self.name}({', '.join(names)}):\n" + "".join(f"    {line}\n" for line in self.body)

    def launch(self, grid: str, more: str = "") -> str:
        """Write the launch on a grid; `more` are further keywords, such as ", num_warps=4"."""
        passed = [value for _, value in self.arguments] + [f"{name}={value}" for name, value in self.constants]
        return f"{self.name}[{grid}]({', '.join(passed)}{more})"


def make_kernel(
    devices: Sequence[Device], host: Sequence[str], tensors: Sequence[tuple[str, str]], result: str, style: str
) -> Kernel:
    """Write the kernels of a solution and the lines that launch them."""

    def write(local: dict[str, str]) -> list[str]:
        return [_TENSOR.sub(lambda match: local[match[1]], line) for line in host]

    return Kernel(
        source="\n\n@triton.jit\n".join(device.source for device in devices),
        tensors=tuple(tensors),
        host=write,
        result=result,
        style=style,
    )


@define(kw_only=True)
class Draft(Reference):
    """A reference in the making; `tensors` are what its solution's launches read."""

    tensors: list[tuple[str, str]] = Factory(list)
    numbers: list[str] = Factory(list)
    """Those of `tensors` that are numbers, which are passed last."""

    def take(self, name: str, value: str, is_last: bool = False) -> None:
        """Add an input of `forward`, drawn by an expression; launches read it before the module's tensors, or last."""
        self.tensors.insert(len(self.tensors) if is_last else len(self.arguments), (name, name))
        self.arguments.append(name)
        self.inputs.append(value)

    def pass_number(self, name: str, value: str) -> None:
        """Add a number that is an argument of `Model`, kept and passed to the kernel."""
        self.numbers.append(name)
        self.parameters.append((name, value))
        self.init.append(f"self.{name} = {name}")
        self.tensors.append((name, f"self.{name}"))

    def hold(self, local: str, attribute: str) -> None:
        """Add a tensor of the module that the launches read under the name `local`."""
        self.tensors.append((local, f"self.{attribute}"))

    def take_chain(
        self, chain: ChainNames, shape: str, vector: str, features: tuple[str, str], is_last: bool = False
    ) -> None:
        """Add what a chain reads: an input of `shape`, parameters of the shape `vector`, the number passed.

        `features` are the name and the value of the argument of `Model` that sizes the vectors.
        """
        if chain.vectors and features not in self.parameters:
            self.parameters.append(features)
        for name in chain.vectors:
            self.init.append(f"self.{name} = nn.Parameter(torch.randn({vector}))")
            self.hold(name, name)
        if chain.tensor:
            self.take(chain.tensor, f"torch.randn({shape})", is_last)
        if chain.argument:
            self.pass_number(chain.argument, chain.argument_value)

    def pass_to(
        self, pointer: Callable[[str], str], result: str, sizes: Sequence[str | tuple[str, str]], place: int = 1
    ) -> tuple[tuple[str, str], ...]:
        """Return a kernel's (parameter, passed value) pairs: tensors with the result at `place`, `sizes`, numbers.

        A size that is one name is passed as it is called.
        """
        tensors = [(pointer(name), f"<{name}>") for name, _ in self.tensors if name not in self.numbers]
        tensors.insert(place, (pointer(result), result))
        named = [(size, size) if isinstance(size, str) else size for size in sizes]
        return (*tensors, *named, *((name, f"<{name}>") for name in self.numbers))

    def reference(self, forward: Sequence[str]) -> Reference:
        """Return the reference with these statements in `forward`."""
        self.forward = [*forward]
        return self
