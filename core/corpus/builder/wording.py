"""Puts modules together: the reference program, the solution, and the names both are written with.

The families give parts (statements, parameters, inputs); here they become source text. A model is to learn what the
parts do, so names, spellings and arrangement vary from one rendering to the next, within what people write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import Factory, define, evolve, frozen

from ...task import Example, Task
from .draw import Draw
from .spec import Size, Spec

ROW_NAMES: dict[int, tuple[tuple[str, ...], ...]] = {
    2: (("M", "N"), ("ROWS", "COLS"), ("batch_size", "dim"), ("BATCH", "DIM"), ("B", "D")),
    3: (("B", "M", "N"), ("BATCH", "SEQ", "DIM"), ("batch_size", "seq_len", "dim"), ("B", "T", "D")),
}
"""Names of the dimensions of rows, and of a batch of them."""


@frozen(kw_only=True)
class Names:
    """The names of one rendering."""

    dimensions: tuple[str, ...]
    pointer: str
    """Template of a pointer argument's name."""
    x: str
    """The first input."""
    out: str
    block: str
    columns: str
    offsets: str
    value: str
    """The running value in the kernel."""
    suffix: str
    """What a kernel's name ends in."""

    def ptr(self, name: str) -> str:
        """Return the pointer argument for a tensor."""
        return self.pointer.format(name)

    def beside(self, *inputs: str) -> Names:
        """Return these names, with another one for the result where an input is called like it."""
        return evolve(self, out="out") if self.out in inputs else self

    @property
    def shape(self) -> str:
        """Return the input's shape as arguments of `torch.randn`."""
        return ", ".join(self.dimensions)


def draw_names(draw: Draw, dimensions: Sequence[tuple[str, ...]]) -> Names:
    """Draw names for a family whose dimensions are called as one of these."""
    return Names(
        dimensions=draw.choice(dimensions),
        pointer=draw.choice(("{}_ptr", "{}_ptr", "{}_ptr", "p_{}")),
        x=draw.choice(("x", "x", "x", "inp", "a")),
        out=draw.choice(("out", "out", "y", "c")),
        block=draw.choice(("BLOCK", "BLOCK", "BLOCK_SIZE")),
        columns=draw.choice(("cols", "cols", "col", "idx")),
        offsets=draw.choice(("offs", "offs", "offsets", "pos")),
        value=draw.choice(("v", "v", "val", "t")),
        suffix=draw.choice(("_kernel", "_kernel", "_fwd", "_triton")),
    )


@frozen(kw_only=True)
class Kernel:
    """Device code and how it is launched.

    `tensors` are (local name, expression in `forward`) of what the launch reads; `host` are the lines from shapes to
    the launch, written with the local names; `result` is what is returned.
    """

    source: str
    tensors: tuple[tuple[str, str], ...]
    host: Callable[[dict[str, str]], list[str]]
    result: str
    style: str


def block(lines: Sequence[str], depth: int) -> str:
    """Write lines indented by `depth` levels, each ended."""
    indent = "    " * depth
    return "".join(f"{indent}{line}\n" for line in lines)


def _constructor(parameters: Sequence[str], lines: Sequence[str]) -> str:
    if not lines:
        return ""
    head = ", ".join(("self", *parameters))
    return f"    def __init__({head}):\n" + block(("super().__init__()", *lines), 2) + "\n"


@define(kw_only=True)
class Reference:
    """The parts of a reference program."""

    parameters: list[tuple[str, str]] = Factory(list)
    """(name in `__init__`, expression in `get_init_inputs`)."""
    init: list[str] = Factory(list)
    arguments: list[str] = Factory(list)
    forward: list[str] = Factory(list)
    inputs: list[str] = Factory(list)


def write_reference(reference: Reference, names: Names, sizes: Sequence[Size]) -> str:
    """Write the reference module's source."""
    forward = block(reference.forward, 2)
    constants = "".join(f"{name} = {size.declared}\n" for name, size in zip(names.dimensions, sizes, strict=True))
    functional = "import torch.nn.functional as F\n" if "F." in forward else ""
    init = _constructor([name for name, _ in reference.parameters], reference.init)
    init_inputs = ", ".join(value for _, value in reference.parameters)
    return (
        f"import torch\nimport torch.nn as nn\n{functional}\n{constants}\n\n"
        f"class Model(nn.Module):\n{init}"
        f"    def forward(self, {', '.join(reference.arguments)}):\n{forward}\n\n"
        f"def get_inputs():\n    return [{', '.join(reference.inputs)}]\n\n\n"
        f"def get_init_inputs():\n    return [{init_inputs}]\n"
    )


def write_solution(reference: Reference, kernel: Kernel, wrapper: str) -> str:
    """Write the solution module's source; launched from the function `wrapper`, or in `forward` where that is empty."""
    init = _constructor([name for name, _ in reference.parameters], reference.init)
    if wrapper:
        local = {name: name for name, _ in kernel.tensors}
        lines = [*kernel.host(local), f"return {kernel.result}"]
        helper = f"def {wrapper}({', '.join(local)}):\n{block(lines, 1)}\n\n"
        forward = block([f"return {wrapper}({', '.join(value for _, value in kernel.tensors)})"], 2)
    else:
        helper = ""
        forward = block([*kernel.host(dict(kernel.tensors)), f"return {kernel.result}"], 2)
    return (
        "import torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n"
        f"@triton.jit\n{kernel.source}\n\n{helper}"
        f"class ModelNew(nn.Module):\n{init}"
        f"    def forward(self, {', '.join(reference.arguments)}):\n{forward}"
    )


def make_task(spec: Spec, task_id: str, description: str, reference: Reference, names: Names) -> Task:
    """Return the task of its parts, with the sizes of its profiles by name."""
    profiles = {
        profile: tuple((name, getattr(size, profile)) for name, size in zip(names.dimensions, spec.sizes, strict=True))
        for profile in ("tiny", "small", "larger")
    }
    return Task(
        task_id=task_id,
        level=spec.level,
        family=spec.family,
        description=description,
        source=write_reference(reference, names, spec.sizes),
        dtypes=spec.dtypes,
        **profiles,
    )


def finish(
    spec: Spec, task_id: str, description: str, reference: Reference, kernel: Kernel, names: Names, draw: Draw
) -> Example:
    """Make the example of its parts."""
    wrapper = (
        draw.choice((f"launch_{spec.family}", f"triton_{spec.family}", "launch", "run")) if draw.chance(0.2) else ""
    )
    task = make_task(spec, task_id, description, reference, names)
    style = f"{kernel.style}/{'wrapper' if wrapper else 'forward'}"
    return Example(task=task, solution=write_solution(reference, kernel, wrapper), style=style)
