"""What the second part's families are put together with: a draft of the module, and kernels with their launches.

A draft gathers parameters, inputs and statements while a family decides them, and takes a chain's operands in one
call. A kernel names its parameters together with what the host passes for each, so that the two cannot disagree. Host
lines write `<x>` for the tensor `x`, which is `x` or `self.x` as the launch is in a function or in `forward`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from attrs import Factory, define, frozen

from .chain import ChainNames
from .wording import Kernel, Reference

_TENSOR = re.compile(r"<(\w+)>")


@frozen(kw_only=True)
class Device:
    """One kernel: (parameter, what the host passes) pairs, constants with their values, and the body's lines."""

    name: str
    arguments: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, str], ...] = ()
    body: tuple[str, ...]

    @property
    def source(self) -> str:
        """The function's text, without its decorator."""
        names = [name for name, _ in self.arguments] + [f"{name}: tl.constexpr" for name, _ in self.constants]
        return f"def {self.name}({', '.join(names)}):\n" + "".join(f"    {line}\n" for line in self.body)

    def launch(self, grid: str, more: str = "") -> str:
        """The launch on a grid; `more` are further keywords, such as ", num_warps=4"."""
        passed = [value for _, value in self.arguments] + [f"{name}={value}" for name, value in self.constants]
        return f"{self.name}[{grid}]({', '.join(passed)}{more})"


def make_kernel(
    devices: Sequence[Device], host: Sequence[str], tensors: Sequence[tuple[str, str]], result: str, style: str
) -> Kernel:
    """The kernels of a solution and the lines that launch them."""

    def write(local: dict[str, str]) -> list[str]:
        return [_TENSOR.sub(lambda match: local[match[1]], line) for line in host]

    return Kernel(
        source="\n\n@triton.jit\n".join(device.source for device in devices),
        tensors=tuple(tensors),
        host=write,
        result=result,
        style=style,
    )


@define
class Draft:
    """A reference in the making; `tensors` are what its solution's launches read."""

    parameters: list[tuple[str, str]] = Factory(list)
    init: list[str] = Factory(list)
    arguments: list[str] = Factory(list)
    inputs: list[str] = Factory(list)
    tensors: list[tuple[str, str]] = Factory(list)

    def take(self, name: str, value: str) -> None:
        """An input of `forward`, drawn by an expression."""
        self.arguments.append(name)
        self.inputs.append(value)
        self.tensors.insert(len(self.arguments) - 1, (name, name))

    def pass_number(self, name: str, value: str) -> None:
        """A number that is an argument of `Model`, kept and passed to the kernel."""
        self.parameters.append((name, value))
        self.init.append(f"self.{name} = {name}")
        self.tensors.append((name, f"self.{name}"))

    def hold(self, local: str, attribute: str) -> None:
        """A tensor of the module that the launches read under the name `local`."""
        self.tensors.append((local, f"self.{attribute}"))

    def take_chain(self, chain: ChainNames, shape: str, vector: str, features: tuple[str, str]) -> None:
        """What a chain reads: an input of `shape`, parameters of the shape `vector`, the number passed.

        `features` are the name and the value of the argument of `Model` that sizes the vectors.
        """
        if chain.tensor:
            self.take(chain.tensor, f"torch.randn({shape})")
        if chain.vectors and features not in self.parameters:
            self.parameters.append(features)
        for name in chain.vectors:
            self.init.append(f"self.{name} = nn.Parameter(torch.randn({vector}))")
            self.hold(name, name)
        if chain.argument:
            self.pass_number(chain.argument, chain.argument_value)

    def reference(self, forward: Sequence[str]) -> Reference:
        """The reference with these statements in `forward`."""
        return Reference(
            parameters=tuple(self.parameters),
            init=tuple(self.init),
            arguments=tuple(self.arguments),
            forward=tuple(forward),
            inputs=tuple(self.inputs),
        )


def pair(names: Sequence[str], pointer: Callable[[str], str]) -> list[tuple[str, str]]:
    """Pointer arguments for tensors, with what the host passes for them."""
    return [(pointer(name), f"<{name}>") for name in names]


def name_pointers(draft: Draft, chain: ChainNames) -> list[str]:
    """The tensors whose pointers a launch passes: all that it reads but the number."""
    return [name for name, _ in draft.tensors if name != chain.argument]
