"""Convolutions, transposed convolutions and pooling of one to three sides, for any window and any groups.

A convolution is an implicit matrix product, and direct sums where its channels are in groups. All numbers of a window
are read from the module, so that the kernel of a kind and a rank is one text whatever the layer: an answer copies the
layer and computes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from .launches import Epilogue, Function, Place

_AXES = {1: ("W",), 2: ("H", "W"), 3: ("D", "H", "W")}
_LETTERS = {"D": "z", "H": "h", "W": "w"}


@frozen(kw_only=True)
class WindowCode:
    """Writes the lines about a window that slides over `rank` sides."""

    rank: int
    is_transposed: bool = False
    has_dilation: bool = True

    @property
    def axes(self) -> tuple[str, ...]:
        return _AXES[self.rank]

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
        return [(name, name) for name in (*self.axes, *self._each("O"), *self.numbers)]

    def unpack(self, letters: str) -> str:
        """Return the names that take one property after another, each of as many numbers as there are sides."""
        groups = [self._each(letter) for letter in letters]
        return ", ".join(f"({', '.join(names)}{',' if self.rank == 1 else ''})" for names in groups)

    def lengths(self) -> list[str]:
        """Write the host's lines that find the result's sides."""
        return [f"O{axis} = {self._length(axis)}" for axis in self.axes]

    def _length(self, axis: str) -> str:
        reach = f"D{axis} * (K{axis} - 1)" if self.has_dilation else f"(K{axis} - 1)"
        if self.is_transposed:
            return f"({axis} - 1) * S{axis} - 2 * P{axis} + {reach} + E{axis} + 1"
        return f"({axis} + 2 * P{axis} - {reach} - 1) // S{axis} + 1"

    @property
    def taps(self) -> str:
        return _product(self._each("K"))

    @property
    def plane(self) -> str:
        """Return the number of elements of one channel of the result."""
        return _product(self._each("O"))

    def split(self, index: str, prefix: str, sizes: str) -> list[str]:
        """Write each side's part of an index that runs over all sides and more, the last side first."""
        lines, later = [], ""
        for axis in reversed(self.axes):
            quotient = f"{index} // {later}" if later else index
            lines.append(f"{prefix}{_LETTERS[axis]} = {quotient} % {sizes}{axis}")
            later = f"{sizes}{axis}" if not later else f"({sizes}{axis} * {later.strip('()')})"
        return lines

    def find_source(self, axis: str) -> list[str]:
        """Write the input's place on a side, and for a transposed one whether there is one."""
        letter = _LETTERS[axis]
        step = f"k{letter} * D{axis}" if self.has_dilation else f"k{letter}"
        if self.is_transposed:
            return [f"s{letter} = o{letter} + P{axis} - {step}", f"i{letter} = s{letter} // S{axis}"]
        return [f"i{letter} = o{letter} * S{axis} - P{axis} + {step}"]

    def conditions(self) -> list[str]:
        """Return the conditions under which the input has the place."""
        found = []
        for axis in self.axes:
            letter = _LETTERS[axis]
            if self.is_transposed:
                found.append(f"(s{letter} >= 0) & (s{letter} % S{axis} == 0) & (i{letter} < {axis})")
            else:
                found.append(f"(i{letter} >= 0) & (i{letter} < {axis})")
        return found

    def loop(self, body: Sequence[str]) -> list[str]:
        """Write loops over the taps around `body`, with each side's place found as early as it is known."""
        lines: list[str] = []
        for depth, axis in enumerate(self.axes):
            lines.append("    " * depth + f"for k{_LETTERS[axis]} in range(K{axis}):")
            lines += ["    " * (depth + 1) + line for line in self.find_source(axis)]
        return lines + ["    " * self.rank + line for line in body]

    def address(self, plane: str, prefix: str, sizes: str) -> str:
        """Write an element of a plane."""
        index = plane
        for axis in self.axes:
            index = f"{f'({index})' if ' ' in index else index} * {sizes}{axis} + {prefix}{_LETTERS[axis]}"
        return index


def _product(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"({' * '.join(names)})"


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
    code = WindowCode(rank=rank, is_transposed=is_transposed)
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
    sides = " * ".join(f"O{axis}" for axis in code.axes)
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
        shape=f"(N, F, {', '.join(f'O{axis}' for axis in code.axes)})",
        grid="(triton.cdiv(num, 512),)" if has_groups else "(triton.cdiv(M, 64), triton.cdiv(F, 64))",
        sizes=(*((size, size) for size in sizes), *code.sides, *epilogue.sizes()),
        constants=(*code.constants, *constants),
        body=tuple(body),
    )


Parts = tuple[list[str], list[str], list[tuple[str, str]]]


def _write_product(code: WindowCode, epilogue: Epilogue) -> Parts:
    lines = [
        "rm = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]",
        "rf = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]",
        *code.split("rm", "o", "O"),
        f"n = rm // {code.plane}",
        "acc = tl.zeros((BM, BN), dtype=tl.float32)",
        f"K = C * {code.taps}",
        "for k in range(0, K, BK):",
    ]
    inner = ["rk = k + tl.arange(0, BK)[None, :]", *code.split("rk", "k", "K")]
    for axis in code.axes:
        inner += code.find_source(axis)
    inside = " & ".join(["(rm < M) & (rk < K)", *code.conditions()])
    source = code.address(f"n * C + rk // {code.taps}", "i", "")
    inner += [
        f"inside = {inside}",
        f"x = tl.load(x_ptr + {source}, mask=inside, other=0.0)",
        "rk = k + tl.arange(0, BK)[:, None]",
    ]
    found = f"(rk // {code.taps} * F + rf) * {code.taps} + rk % {code.taps}" if code.is_transposed else "rf * K + rk"
    inner += [
        f"w = tl.load(weight_ptr + {found}, mask=(rk < K) & (rf < F), other=0.0)",
        'acc += tl.dot(x, w, input_precision="ieee")',
    ]
    lines += ["    " + line for line in inner]
    lines += [
        "mask = (rm < M) & (rf < F)",
        *_add_bias("rf", "rf < F"),
        f"offs = {code.address('n * F + rf', 'o', 'O')}",
        *epilogue.lines(Place(indices=((1, "rf", "rf < F"),))),
        "tl.store(out_ptr + offs, acc, mask=mask)",
    ]
    return lines, ["M", "C", "F"], [("BM", "64"), ("BN", "64"), ("BK", "32")]


def _add_bias(index: str, mask: str) -> list[str]:
    return ["if bias_ptr is not None:", f"    acc += tl.load(bias_ptr + {index}, mask={mask}, other=0.0)"]


def _write_direct(code: WindowCode, epilogue: Epilogue) -> Parts:
    lines = [
        "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offs < num",
        *code.split("offs", "o", "O"),
        f"row = offs // {code.plane}",
        "f = row % F",
        "acc = tl.zeros((BLOCK,), dtype=tl.float32)",
        "for g in range(CG):",
        "    c = f // FG * CG + g",
    ]
    weight = "c * FG + f % FG" if code.is_transposed else "f * CG + g"
    inside = " & ".join(["mask", *code.conditions()])
    taps = [
        f"x = tl.load(x_ptr + {code.address('row // F * C + c', 'i', '')}, mask={inside}, other=0.0)",
        f"w = tl.load(weight_ptr + {code.address(weight, 'k', 'K')}, mask=mask, other=0.0)",
        "acc += x * w",
    ]
    lines += [
        *("    " + line for line in code.loop(taps)),
        *_add_bias("f", "mask"),
        *epilogue.lines(Place(indices=((1, "f", "mask"),))),
        "tl.store(out_ptr + offs, acc, mask=mask)",
    ]
    return lines, ["num", "C", "F", "CG", "FG"], [("BLOCK", "512")]


def write_pooling(rank: int, is_max: bool, argument: str, module: str, epilogue: Epilogue) -> Function:
    """Write max or average pooling; averages count the padding, as PyTorch's do."""
    code = WindowCode(rank=rank, has_dilation=is_max)
    lines = [
        "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offs < num",
        *code.split("offs", "o", "O"),
        f"row = offs // {code.plane}",
        'acc = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)'
        if is_max
        else "acc = tl.zeros((BLOCK,), dtype=tl.float32)",
    ]
    inside, other = " & ".join(["mask", *code.conditions()]), '-float("inf")' if is_max else "0.0"
    load = f"x = tl.load(x_ptr + {code.address('row', 'i', '')}, mask={inside}, other={other})"
    lines += code.loop([load, "acc = tl.maximum(acc, x)" if is_max else "acc += x"])
    lines += [] if is_max else [f"acc = acc / {code.taps}"]
    lines += [*epilogue.lines(Place()), "tl.store(out_ptr + offs, acc, mask=mask)"]
    outs = [f"O{axis}" for axis in code.axes]
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
            f"num = N * C * {' * '.join(outs)}",
        ),
        shape=f"(N, C, {', '.join(outs)})",
        grid="(triton.cdiv(num, 512),)",
        sizes=(("num", "num"), *code.sides, *epilogue.sizes()),
        constants=(*code.constants, ("BLOCK", "512")),
        body=tuple(lines),
    )
