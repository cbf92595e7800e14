"""A kernel with the function that launches it, and the pointwise steps that its end takes along.

A function knows its operands by its own parameters' names and finds every size in their shapes, so the forward pass of
an answer is a list of calls, and two layers of one kind share a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from attrs import define, evolve, frozen

from ..builder.drafts import Device
from ..builder.operations import Applied


@frozen(kw_only=True)
class Place:
    """The elements of a result that a kernel has at hand: their offsets, their mask, and indices along dimensions."""

    offset: str = "offs"
    mask: str = "mask"
    indices: tuple[tuple[int, str, str], ...] = ()
    """(dimension, index, mask) where the kernel knows them."""


@frozen(kw_only=True)
class Step:
    """A pointwise function with what it reads: nothing, a vector along `axis`, a number, or another tensor."""

    name: str
    applied: Applied | None = None
    spelling: str = ""
    """The function in Triton of `{x}` and `{v}`."""
    operands: tuple[tuple[str, str], ...] = ()
    """(name in the function, what the forward pass gives) of each operand."""
    numbers: tuple[tuple[str, str], ...] = ()
    """(name in the function, keyword and value that the forward pass gives) of each number of the function."""
    kind: str = ""
    """Nothing, "channel", "scalar", "number", "tensor" or "plane" (a value for each of the leading two dimensions)."""
    axis: int = 1


@define
class Epilogue:
    """Writes the steps that follow a kernel's own work, and gathers their operands."""

    steps: Sequence[Step] = ()
    needs_axis: int = -1
    needs_plane: bool = False

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """Return the (name, argument) of each tensor that the steps read, each with a name of its own."""
        return [operand for step in self.steps if step.kind != "number" for operand in step.operands]

    @property
    def numbers(self) -> list[tuple[str, str]]:
        """Return the (name, argument) of each plain number that they read or are functions of."""
        read = [operand for step in self.steps if step.kind == "number" for operand in step.operands]
        return read + [number for step in self.steps for number in step.numbers]

    def lines(self, place: Place) -> list[str]:
        """Write the steps on `acc`."""
        found: list[str] = []
        for step in self.steps:
            loaded = {name: self._load(name, step, place) for name, _ in step.operands}
            names = list(loaded)
            values = {"v": loaded[names[0]]} if names else {}
            values.update({f"v{number}": loaded[name] for number, name in enumerate(names)})
            found += [line.format(x="acc", **values) for line in step.spelling.split("\n")]
        return found

    def load_vector(self, name: str, axis: int, place: Place) -> str:
        """Write the load of a vector's value for each element."""
        index, mask = self._find_index(axis, place)
        return _load(name, index, mask)

    def _load(self, name: str, step: Step, place: Place) -> str:
        match step.kind:
            case "scalar":
                return f"tl.load({name}_ptr)"
            case "number":
                return name
            case "channel":
                return self.load_vector(name, step.axis, place)
            case "plane":
                self.needs_plane = True
                return _load(name, f"{place.offset} // PLANE", place.mask)
            case _:
                return _load(name, place.offset, place.mask)

    def _find_index(self, axis: int, place: Place) -> tuple[str, str]:
        for dimension, index, mask in place.indices:
            if dimension == axis:
                return index, mask
        if self.needs_axis not in (-1, axis):
            raise ValueError("vectors along two dimensions of one result")
        self.needs_axis = axis
        return f"{place.offset} // INNER % CHANNELS", place.mask

    def sizes(self) -> list[tuple[str, str]]:
        """Return the (parameter, value) of numbers, and of sizes that the loads need; asked for after `lines`."""
        found = [(name, name) for name, _ in self.numbers]
        if self.needs_axis >= 0:
            found += [("CHANNELS", f"out.shape[{self.needs_axis}]"), ("INNER", f"out.stride({self.needs_axis})")]
        if self.needs_plane:
            found.append(("PLANE", "out.stride(1)"))
        return found


def _load(name: str, index: str, mask: str) -> str:
    return f"tl.load({name}_ptr + {index}, mask={mask}, other=0.0)" if mask else f"tl.load({name}_ptr + {index})"


@frozen(kw_only=True)
class Function:
    """A kernel and its launch: `tensors` are (name, argument) pairs, `numbers` further ones that are no tensors.

    A function of a layer is given the module, as `layer`, and reads its weights and numbers there: what a layer's
    constructor was given, and whether it has a bias, then needs no line of the answer.
    """

    name: str
    tensors: tuple[tuple[str, str], ...]
    module: str = ""
    """What the forward pass gives for `layer`."""
    held: tuple[str, ...] = ()
    """The layer's tensors that the kernel reads, each of which may be None."""
    numbers: tuple[tuple[str, str], ...] = ()
    host: tuple[str, ...]
    """The lines before the result is allocated."""
    shape: str
    grid: str
    sizes: tuple[tuple[str, str], ...]
    """(parameter, value) of the kernel's whole numbers."""
    constants: tuple[tuple[str, str], ...] = ()
    body: tuple[str, ...]
    dtype: str = ""
    """The result's, where it is not the input's."""
    result: str = "out"

    @cached_property
    def text(self) -> str:
        """Return what tells this function from others, whatever it is called and given."""
        return self.write("f")

    def write(self, name: str) -> str:
        """Write the kernel and the function under a name."""
        pointers = [(f"{tensor}_ptr", tensor) for tensor, _ in self.tensors]
        pointers[1:1] = [(f"{tensor}_ptr", f"layer.{tensor}") for tensor in self.held]
        device = Device(
            name=f"{name}_kernel",
            arguments=(*pointers, ("out_ptr", "out"), *self.sizes),
            constants=self.constants,
            body=self.body,
        )
        parameters = ", ".join(parameter for parameter, _ in self._parameters)
        first = self.tensors[0][0]
        lines = [
            *self.host,
            f"out = torch.empty({self.shape}, device={first}.device, dtype={self.dtype or f'{first}.dtype'})",
            device.launch(self.grid),
            f"return {self.result}",
        ]
        host = "".join(f"    {line}\n" for line in lines)
        return f"@triton.jit\n{device.source}\n\ndef {name}({parameters}):\n{host}"

    def call(self, name: str) -> str:
        """Write a call."""
        return f"{name}({', '.join(argument for _, argument in self._parameters)})"

    @property
    def _parameters(self) -> list[tuple[str, str]]:
        found = [*self.tensors, *self.numbers]
        found[1:1] = [("layer", self.module)] if self.module else []
        return found


def own_weights(
    function: Function, weights: tuple[tuple[str, str], ...], numbers: tuple[tuple[str, str], ...] = ()
) -> Function:
    """Return a layer's function that is given its weights and numbers in place of the layer."""
    first, *others = function.tensors
    return evolve(
        function,
        tensors=(first, *weights, *others),
        held=(),
        numbers=(*numbers, *function.numbers),
        host=tuple(line.replace("layer.weight", "weight") for line in function.host),
    )
