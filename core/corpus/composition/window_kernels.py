"""Convolutions, transposed convolutions and pooling of one to three sides, for any window and any groups.

A convolution is an implicit matrix product, and direct sums where its channels are in groups. All numbers of a window
are read from the module, so that the kernel of a kind and a rank is one text whatever the layer: an answer copies the
layer and computes nothing.
"""

from __future__ import annotations

from attrs import evolve, frozen

from ..builder.window_code import WindowCode
from ..builder.windows import square_window
from .launches import Epilogue, Function, Place

_AXES = {1: ("W",), 2: ("H", "W"), 3: ("D", "H", "W")}


@frozen(kw_only=True)
class LayerCode(WindowCode):
    """A window whose numbers a layer holds, so that each has a name, whatever it is."""

    has_dilation: bool = True

    def number(self, kind: str, side: int) -> str:
        """Return the name of one of the window's numbers."""
        return "" if kind == "dilation" and not self.has_dilation else f"{kind[0].upper()}{self.axes[side]}"

    def _each(self, letter: str) -> list[str]:
        return [f"{letter}{axis}" for axis in self.axes]

    @property
    def numbers(self) -> list[str]:
        """Return the window's numbers that a kernel is given as whole numbers."""
        return [name for letter in ("SPD" if self.has_dilation else "SP") for name in self._each(letter)]

    @property
    def constants(self) -> list[tuple[str, str]]:
        """Return the kernel's constants with what the host passes."""
        return [(name, name) for name in self._each("K")]

    @property
    def sides(self) -> list[tuple[str, str]]:
        """Return the lengths of input and result, and the window's numbers, that the kernel is given."""
        return [(name, name) for name in (*self.axes, *self.outs, *self.numbers)]

    def unpack(self, letters: str) -> str:
        """Return the names that take one property after another, each of as many numbers as there are sides."""
        groups = [self._each(letter) for letter in letters]
        return ", ".join(f"({', '.join(names)}{',' if self.window.rank == 1 else ''})" for names in groups)

    def lengths(self) -> list[str]:
        """Write the host's lines that find the result's sides."""
        return [f"O{axis} = {self._length(axis)}" for axis in self.axes]

    def _length(self, axis: str) -> str:
        reach = f"D{axis} * (K{axis} - 1)" if self.has_dilation else f"(K{axis} - 1)"
        if self.window.is_transposed:
            return f"({axis} - 1) * S{axis} - 2 * P{axis} + {reach} + E{axis} + 1"
        return f"({axis} + 2 * P{axis} - {reach} - 1) // S{axis} + 1"


def _read_layer(rank: int, is_transposed: bool = False, has_dilation: bool = True) -> LayerCode:
    # what its numbers are makes no difference to how they are called
    window = evolve(square_window(rank, 1), is_transposed=is_transposed)
    return LayerCode(window=window, axes=_AXES[rank], is_named=True, has_dilation=has_dilation)


def write_convolution(
    rank: int,
    is_transposed: bool,
    has_groups: bool,
    argument: str,
    module: str,
    epilogue: Epilogue,
    is_same: bool = False,
    is_own: bool = False,
) -> Function:
    """Write a convolution, transposed or not, whose bias and following steps are part of its kernel.

    One of the model's own weights (`is_own`) is given its stride and padding, each one number.
    A layer whose padding `is_same` says that in a word, so that its numbers are computed.
    """
    code = _read_layer(rank, is_transposed)
    sources = ["kernel_size", "stride", "padding", "dilation", *(["output_padding"] if is_transposed else [])]
    letters = "KSPDE" if is_transposed else "KSPD"
    padding = [f"P{axis} = D{axis} * (K{axis} - 1) // 2" for axis in code.axes] if is_same else []
    if is_same:
        sources.remove("padding")
        letters = letters.replace("P", "")
    numbers = [
        "F = layer.out_channels",
        f"{code.unpack(letters)} = {', '.join(f'layer.{source}' for source in sources)}",
    ]
    if is_own:
        numbers = [f"F, _, {', '.join(f'K{axis}' for axis in code.axes)} = weight.shape"]
        for letter, number in (("S", "stride"), ("P", "padding"), ("D", "1")):
            numbers.append(" = ".join([*(f"{letter}{axis}" for axis in code.axes), number]))
    host = [
        f"N, C, {', '.join(code.axes)} = x.shape",
        *numbers,
        *padding,
        *code.lengths(),
    ]
    sides = " * ".join(code.outs)
    body, sizes, constants = (_write_direct if has_groups else _write_product)(code, epilogue)
    if has_groups:
        host += ["CG, FG = C // layer.groups, F // layer.groups", f"num = N * F * {sides}"]
    else:
        host.append(f"M = N * {sides}")
    return Function(
        name=f"{'grouped_' if has_groups else ''}conv{'_transpose' if is_transposed else ''}{rank}d",
        tensors=(("x", argument), *epilogue.parameters),
        module=module,
        held=("weight", "bias"),
        host=tuple(host),
        shape=f"(N, F, {', '.join(code.outs)})",
        grid="(triton.cdiv(num, 512),)" if has_groups else "(triton.cdiv(M, 64), triton.cdiv(F, 64))",
        sizes=(*((size, size) for size in sizes), *code.sides, *epilogue.sizes()),
        constants=(*code.constants, *constants),
        body=tuple(body),
    )


Parts = tuple[list[str], list[str], list[tuple[str, str]]]


def _write_product(code: LayerCode, epilogue: Epilogue) -> Parts:
    lines = [
        "rm = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]",
        "rf = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]",
        *code.split_places("rm", True),
        f"n = rm // {code.plane}",
        "acc = tl.zeros((BM, BN), dtype=tl.float32)",
        f"K = C * {code.taps}",
        "for k in range(0, K, BK):",
    ]
    inner = ["rk = k + tl.arange(0, BK)[None, :]", *(f"{tap} = {place}" for tap, place in code.split_taps("rk"))]
    for side in range(code.window.rank):
        inner += code.find_source(side)
    inside = " & ".join(["(rm < M) & (rk < K)", *code.conditions])
    source = code.address(f"n * C + rk // {code.taps}")
    inner += [
        f"inside = {inside}",
        f"x = tl.load(x_ptr + {source}, mask=inside, other=0.0)",
        "rk = k + tl.arange(0, BK)[:, None]",
    ]
    found = (
        f"(rk // {code.taps} * F + rf) * {code.taps} + rk % {code.taps}" if code.window.is_transposed else "rf * K + rk"
    )
    inner += [
        f"w = tl.load(weight_ptr + {found}, mask=(rk < K) & (rf < F), other=0.0)",
        'acc += tl.dot(x, w, input_precision="ieee")',
    ]
    lines += ["    " + line for line in inner]
    lines += [
        "mask = (rm < M) & (rf < F)",
        *_add_bias("rf", "rf < F"),
        f"offs = {code.result_address('n * F + rf')}",
        *epilogue.lines(Place(indices=((1, "rf", "rf < F"),))),
        "tl.store(out_ptr + offs, acc, mask=mask)",
    ]
    return lines, ["M", "C", "F"], [("BM", "64"), ("BN", "64"), ("BK", "32")]


def _add_bias(index: str, mask: str) -> list[str]:
    return ["if bias_ptr is not None:", f"    acc += tl.load(bias_ptr + {index}, mask={mask}, other=0.0)"]


def _write_direct(code: LayerCode, epilogue: Epilogue) -> Parts:
    lines = [
        "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offs < num",
        *code.split_places("offs", True),
        f"row = offs // {code.plane}",
        "f = row % F",
        "acc = tl.zeros((BLOCK,), dtype=tl.float32)",
        "for g in range(CG):",
        "    c = f // FG * CG + g",
    ]
    weight = "c * FG + f % FG" if code.window.is_transposed else "f * CG + g"
    inside = " & ".join(["mask", *code.conditions])
    taps = [
        f"x = tl.load(x_ptr + {code.address('row // F * C + c')}, mask={inside}, other=0.0)",
        f"w = tl.load(weight_ptr + {code.tap_address(weight)}, mask=mask, other=0.0)",
        "acc += x * w",
    ]
    lines += [
        *("    " + line for line in code.loop("range", taps)),
        *_add_bias("f", "mask"),
        *epilogue.lines(Place(indices=((1, "f", "mask"),))),
        "tl.store(out_ptr + offs, acc, mask=mask)",
    ]
    return lines, ["num", "C", "F", "CG", "FG"], [("BLOCK", "512")]


def write_pooling(rank: int, is_max: bool, argument: str, module: str, epilogue: Epilogue) -> Function:
    """Write max or average pooling; averages count the padding, as PyTorch's do."""
    code = _read_layer(rank, has_dilation=is_max)
    lines = [
        "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offs < num",
        *code.split_places("offs", True),
        f"row = offs // {code.plane}",
        'acc = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)'
        if is_max
        else "acc = tl.zeros((BLOCK,), dtype=tl.float32)",
    ]
    inside, other = " & ".join(["mask", *code.conditions]), '-float("inf")' if is_max else "0.0"
    load = f"x = tl.load(x_ptr + {code.address('row')}, mask={inside}, other={other})"
    lines += code.loop("range", [load, "acc = tl.maximum(acc, x)" if is_max else "acc += x"])
    lines += [] if is_max else [f"acc = acc / {code.taps}"]
    lines += [*epilogue.lines(Place()), "tl.store(out_ptr + offs, acc, mask=mask)"]
    sources = ("kernel_size", "stride", "padding", *(("dilation",) if is_max else ()))
    # a pooling layer keeps its numbers as it was given them: one for all sides, or one a side
    given = ", ".join(f"layer.{source}" for source in sources)
    return Function(
        name=f"{'max' if is_max else 'avg'}_pool{rank}d",
        tensors=(("x", argument), *epilogue.parameters),
        module=module,
        host=(
            f"N, C, {', '.join(code.axes)} = x.shape",
            f"sides = [n if isinstance(n, tuple) else (n,) * {rank} for n in ({given})]",
            f"{code.unpack('KSPD' if is_max else 'KSP')} = sides",
            *code.lengths(),
            f"num = N * C * {' * '.join(code.outs)}",
        ),
        shape=f"(N, C, {', '.join(code.outs)})",
        grid="(triton.cdiv(num, 512),)",
        sizes=(("num", "num"), *code.sides, *epilogue.sizes()),
        constants=(*code.constants, ("BLOCK", "512")),
        body=tuple(lines),
    )
