"""A chain of operations after a producer: its lines in the reference, in the kernel and in the description."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from .draw import Draw
from .operations import Applied, Operand


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
