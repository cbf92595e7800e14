"""Convolutions, transposed convolutions and pooling of one to three sides, for any window and any groups.

A convolution is an implicit matrix product where a filter sees many channels, and direct sums where it sees few. The
window's numbers are constants of the kernel that the launch gives, so that layers of one kind share it.
"""

from __future__ import annotations

from attrs import frozen

from ..builder.windows import Window
from .launches import Epilogue, Function, Place

_AXES = {1: ("W",), 2: ("H", "W"), 3: ("D", "H", "W")}
_LETTERS = {"D": "z", "H": "h", "W": "w"}
_SHORT = {"stride": "S", "padding": "P", "dilation": "D", "extra": "E"}
_SHARED = {"stride": "STRIDE", "padding": "PAD", "dilation": "DIL", "extra": "EXTRA"}
_TRIVIAL = {"stride": 1, "padding": 0, "dilation": 1, "extra": 0}
_HOST = {"stride": "stride", "padding": "padding", "dilation": "dilation", "extra": "output_padding"}


@frozen(kw_only=True)
class WindowNames:
    """A window's numbers as the kernel and the host call them; those that change nothing have no name."""

    window: Window
    takes_numbers: bool
    """Whether the function is given the numbers, as where several layers share it."""
    fixes_kernel: bool = False
    """Whether no weight's shape tells the kernel's size, as in pooling."""

    @property
    def axes(self) -> tuple[str, ...]:
        return _AXES[self.window.rank]

    def is_shared(self, kind: str) -> bool:
        """Return whether all sides have one number."""
        return len(set(getattr(self.window, kind))) == 1

    def number(self, kind: str, side: int) -> str:
        """Return a number's name in the kernel, or nothing."""
        values = getattr(self.window, kind)
        changes = any(value != _TRIVIAL[kind] for value in values)
        if not changes and not (values and self.takes_numbers and kind in ("stride", "padding")):
            return ""
        return _SHARED[kind] if self.is_shared(kind) else f"{_SHORT[kind]}{self.axes[side]}"

    def host(self, kind: str, side: int) -> str:
        """Return a number as the host writes it, or nothing."""
        if not self.number(kind, side):
            return ""
        value = str(getattr(self.window, kind)[side])
        return _HOST[kind] if self.takes_numbers and self.is_shared(kind) else value

    def host_kernel(self, side: int) -> str:
        """Return the kernel's width on a side as the host writes it."""
        if not self.fixes_kernel:
            return f"K{self.axes[side]}"
        return "size" if self.takes_numbers and self.is_shared("kernel") else str(self.window.kernel[side])

    @property
    def constants(self) -> list[tuple[str, str]]:
        """Return the kernel's constants with what the host passes."""
        found = {f"K{axis}": self.host_kernel(side) for side, axis in enumerate(self.axes)}
        for kind in ("stride", "padding", "dilation"):
            for side in range(self.window.rank):
                if name := self.number(kind, side):
                    found[name] = self.host(kind, side)
        return list(found.items())

    @property
    def numbers(self) -> list[tuple[str, str]]:
        """Return the numbers that the function is given, with their values."""
        if not self.takes_numbers:
            return []
        found = []
        if self.fixes_kernel and self.is_shared("kernel"):
            found.append(("size", str(self.window.kernel[0])))
        for kind in ("stride", "padding", "dilation", "extra"):
            if self.number(kind, 0) and self.is_shared(kind):
                found.append((_HOST[kind], str(getattr(self.window, kind)[0])))
        return found

    def lengths(self) -> list[str]:
        """Write the host's lines that find the result's sides."""
        return [f"O{axis} = {self._length(side, axis)}" for side, axis in enumerate(self.axes)]

    def _length(self, side: int, axis: str) -> str:
        stride, padding, dilation, extra = (
            self.host(kind, side) for kind in ("stride", "padding", "dilation", "extra")
        )
        width = self.host_kernel(side)
        around = f" 2 * {padding}" if padding else ""
        if padding.isdigit():
            around = f" {2 * int(padding)}" if padding != "0" else ""
        reach = f"{dilation} * ({width} - 1)" if dilation else ""
        if self.window.is_transposed:
            scaled = f"({axis} - 1) * {stride}" if stride else f"{axis} - 1"
            grown = f"{scaled} + {reach} + 1" if reach else f"{scaled} + {width}"
            return grown + (f" -{around}" if around else "") + (f" + {extra}" if extra else "")
        inner = axis + (f" +{around}" if around else "")
        inner += f" - {reach} - 1" if reach else f" - {width}"
        return f"({inner}) // {stride} + 1" if stride else f"{inner} + 1"

    @property
    def taps(self) -> str:
        names = [f"K{axis}" for axis in self.axes]
        return names[0] if len(names) == 1 else f"({' * '.join(names)})"

    @property
    def plane(self) -> str:
        """Return the number of elements of one channel of the result."""
        names = [f"O{axis}" for axis in self.axes]
        return names[0] if len(names) == 1 else f"({' * '.join(names)})"

    def split(self, index: str, prefix: str, sizes: str) -> list[str]:
        """Write each side's part of an index that runs over all sides and more, the last side first."""
        lines, later = [], ""
        for axis in reversed(self.axes):
            quotient = f"{index} // {later}" if later else index
            lines.append(f"{prefix}{_LETTERS[axis]} = {quotient} % {sizes}{axis}")
            later = f"{sizes}{axis}" if not later else f"({sizes}{axis} * {later.strip('()')})"
        return lines

    def find_source(self, side: int) -> list[str]:
        """Write the input's place on a side, and for a transposed one whether there is one."""
        letter = _LETTERS[self.axes[side]]
        stride, padding, dilation = (self.number(kind, side) for kind in ("stride", "padding", "dilation"))
        step = f"k{letter} * {dilation}" if dilation else f"k{letter}"
        if self.window.is_transposed:
            value = f"o{letter}" + (f" + {padding}" if padding else "") + f" - {step}"
            return (
                [f"s{letter} = {value}", f"i{letter} = s{letter} // {stride}"] if stride else [f"i{letter} = {value}"]
            )
        value = (f"o{letter} * {stride}" if stride else f"o{letter}") + (f" - {padding}" if padding else "")
        return [f"i{letter} = {value} + {step}"]

    def conditions(self) -> list[str]:
        """Return the conditions under which the input has the place."""
        found = []
        for side, axis in enumerate(self.axes):
            letter = _LETTERS[axis]
            if self.window.is_transposed and self.number("stride", side):
                stride = self.number("stride", side)
                found.append(f"(s{letter} >= 0) & (s{letter} % {stride} == 0) & (i{letter} < {axis})")
            elif self.window.is_transposed or self.number("padding", side):
                found.append(f"(i{letter} >= 0) & (i{letter} < {axis})")
        return found

    def address(self, plane: str, prefix: str, sizes: str) -> str:
        """Write an element of a plane."""
        index = plane
        for axis in self.axes:
            index = f"{f'({index})' if ' ' in index else index} * {sizes}{axis} + {prefix}{_LETTERS[axis]}"
        return index

    def unpack(self, channels: str) -> str:
        """Write the host's line that names an input's sizes."""
        return f"N, {', '.join((channels, *self.axes))} = x.shape"

    @property
    def sides(self) -> list[tuple[str, str]]:
        """Return the lengths of input and result that the kernel is given."""
        return [(name, name) for name in (*self.axes, *(f"O{axis}" for axis in self.axes))]


def write_convolution(
    name: str,
    names: WindowNames,
    groups: int,
    is_direct: bool,
    has_bias: bool,
    argument: str,
    module: str,
    epilogue: Epilogue,
) -> Function:
    """Write a convolution, transposed or not, whose bias and following steps are part of its kernel."""
    is_transposed = names.window.is_transposed
    tensors = [("x", argument), ("weight", f"{module}.weight")]
    if has_bias:
        tensors.append(("bias", f"{module}.bias"))
    sides = ", ".join(f"K{axis}" for axis in names.axes)
    host = [names.unpack("C")]
    if is_transposed:
        host.append(f"_, FG, {sides} = weight.shape" if groups > 1 else f"_, F, {sides} = weight.shape")
        host += [f"F = FG * {groups}"] if groups > 1 else []
    else:
        host.append(f"F, {'CG' if groups > 1 else '_'}, {sides} = weight.shape")
    host += names.lengths()
    if groups > 1:
        host.append(f"CG = C // {groups}" if is_transposed else f"FG = F // {groups}")
    write = _write_direct if is_direct else _write_product
    body, sizes, constants, grid, more = write(names, groups, has_bias, epilogue)
    outs = ", ".join(f"O{axis}" for axis in names.axes)
    return Function(
        name=name,
        tensors=(*tensors, *epilogue.parameters),
        numbers=tuple(names.numbers),
        host=(*host, *more),
        shape=f"(N, F, {outs})",
        grid=grid,
        sizes=(*sizes, *epilogue.sizes()),
        constants=tuple(constants),
        body=tuple(body),
    )


Parts = tuple[list[str], list[tuple[str, str]], list[tuple[str, str]], str, list[str]]


def _write_product(names: WindowNames, groups: int, has_bias: bool, epilogue: Epilogue) -> Parts:
    is_transposed = names.window.is_transposed
    filters, channels = ("FG", "CG") if groups > 1 else ("F", "C")
    plane = names.plane
    lines = [
        "rm = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]",
        "rf = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]",
    ]
    lines += ["g = tl.program_id(2)"] if groups > 1 else []
    lines += [*names.split("rm", "o", "O"), f"n = rm // {plane}"]
    lines += [
        "acc = tl.zeros((BM, BN), dtype=tl.float32)",
        f"K = {channels} * {names.taps}",
        "for k in range(0, K, BK):",
    ]
    first = "g * CG + " if groups > 1 else ""
    inner = ["rk = k + tl.arange(0, BK)[None, :]", *names.split("rk", "k", "K")]
    for side in range(names.window.rank):
        inner += names.find_source(side)
    inside = " & ".join(["(rm < M)", "(rk < K)", *names.conditions()])
    source = names.address(f"n * C + {first}rk // {names.taps}", "i", "")
    inner += [f"inside = {inside}", f"x = tl.load(x_ptr + {source}, mask=inside, other=0.0)"]
    inner.append("rk = k + tl.arange(0, BK)[:, None]")
    if is_transposed:
        row = f"(({first}rk // {names.taps}) * {filters} + rf)"
        found = f"{row} * {names.taps} + rk % {names.taps}"
    else:
        found = f"({'g * FG + ' if groups > 1 else ''}rf) * K + rk" if groups > 1 else "rf * K + rk"
    inner += [
        f"w = tl.load(weight_ptr + {found}, mask=(rk < K) & (rf < {filters}), other=0.0)",
        'acc += tl.dot(x, w, input_precision="ieee")',
    ]
    lines += ["    " + line for line in inner]
    place = Place(indices=((1, "f" if groups > 1 else "rf", f"rf < {filters}"),))
    lines += [f"mask = (rm < M) & (rf < {filters})"]
    lines += ["f = g * FG + rf"] if groups > 1 else []
    filter_name = "f" if groups > 1 else "rf"
    if has_bias:
        lines.append(f"acc += tl.load(bias_ptr + {filter_name}, mask=rf < {filters}, other=0.0)")
    lines.append(f"offs = {names.address(f'n * F + {filter_name}', 'o', 'O')}")
    lines += [*epilogue.lines(place), "tl.store(out_ptr + offs, acc, mask=mask)"]
    sizes = [("M", "M"), ("C", "C"), ("F", "F")]
    sizes += [("CG", "CG"), ("FG", "FG")] if groups > 1 else []
    constants = [*names.constants, ("BM", "64"), ("BN", "32" if groups > 1 else "64"), ("BK", "32")]
    columns = "FG, 32" if groups > 1 else "F, 64"
    grid = f"(triton.cdiv(M, 64), triton.cdiv({columns})" + (f", {groups})" if groups > 1 else ")")
    product = " * ".join(f"O{axis}" for axis in names.axes)
    return lines, [*sizes, *names.sides], constants, grid, [f"M = N * {product}"]


def _write_direct(names: WindowNames, groups: int, has_bias: bool, epilogue: Epilogue) -> Parts:
    is_transposed, has_groups, is_depthwise = names.window.is_transposed, groups > 1, groups < 0
    lines = [
        "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offs < num",
        *names.split("offs", "o", "O"),
        f"row = offs // {names.plane}",
        "f = row % F",
        "acc = tl.zeros((BLOCK,), dtype=tl.float32)",
    ]
    lines += [] if is_depthwise else [f"for c in range({'CG' if has_groups else 'C'}):"]
    depth = 0 if is_depthwise else 1
    for side, axis in enumerate(names.axes):
        lines.append("    " * depth + f"for k{_LETTERS[axis]} in range(K{axis}):")
        depth += 1
        lines += ["    " * depth + line for line in names.find_source(side)]
    channel = "row // F * C + f // FG * CG + c" if has_groups else "row // F * C + c"
    first = "f // FG * CG + c" if has_groups else "c"
    if is_transposed:
        weight = f"({first}) * FG + f % FG" if has_groups else "c * F + f"
    else:
        weight = f"f * {'CG' if has_groups else 'C'} + c"
    if is_depthwise:
        channel, weight = "row", "f"
    inside = " & ".join(["mask", *names.conditions()])
    lines += [
        "    " * depth + line
        for line in (
            f"x = tl.load(x_ptr + {names.address(channel, 'i', '')}, mask={inside}, other=0.0)",
            f"w = tl.load(weight_ptr + {names.address(weight, 'k', 'K')}, mask=mask, other=0.0)",
            "acc += x * w",
        )
    ]
    if has_bias:
        lines.append("acc += tl.load(bias_ptr + f, mask=mask, other=0.0)")
    place = Place(indices=((1, "f", "mask"),))
    lines += [*epilogue.lines(place), "tl.store(out_ptr + offs, acc, mask=mask)"]
    sizes = [("num", "num"), *([] if is_depthwise else [("C", "C")]), ("F", "F")]
    sizes += [("CG", "CG"), ("FG", "FG")] if has_groups else []
    product = " * ".join(f"O{axis}" for axis in names.axes)
    return (
        lines,
        [*sizes, *names.sides],
        [*names.constants, ("BLOCK", "512")],
        "(triton.cdiv(num, 512),)",
        [f"num = N * F * {product}"],
    )


def write_pooling(name: str, names: WindowNames, is_max: bool, argument: str, epilogue: Epilogue) -> Function:
    """Write max or average pooling; averages count the padding, as PyTorch's do."""
    lines = [
        "offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = offs < num",
        *names.split("offs", "o", "O"),
        f"row = offs // {names.plane}",
        'acc = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)'
        if is_max
        else "acc = tl.zeros((BLOCK,), dtype=tl.float32)",
    ]
    depth = 0
    for side, axis in enumerate(names.axes):
        lines.append("    " * depth + f"for k{_LETTERS[axis]} in range(K{axis}):")
        depth += 1
        lines += ["    " * depth + line for line in names.find_source(side)]
    inside, other = " & ".join(["mask", *names.conditions()]), '-float("inf")' if is_max else "0.0"
    lines.append("    " * depth + f"x = tl.load(x_ptr + {names.address('row', 'i', '')}, mask={inside}, other={other})")
    lines.append("    " * depth + ("acc = tl.maximum(acc, x)" if is_max else "acc += x"))
    lines += [] if is_max else [f"acc = acc / {names.taps}"]
    lines += [*epilogue.lines(Place()), "tl.store(out_ptr + offs, acc, mask=mask)"]
    outs = [f"O{axis}" for axis in names.axes]
    return Function(
        name=name,
        tensors=(("x", argument), *epilogue.parameters),
        numbers=tuple(names.numbers),
        host=(names.unpack("C"), *names.lengths(), f"num = N * C * {' * '.join(outs)}"),
        shape=f"(N, C, {', '.join(outs)})",
        grid="(triton.cdiv(num, 512),)",
        sizes=(("num", "num"), *names.sides, *epilogue.sizes()),
        constants=(*names.constants, ("BLOCK", "512")),
        body=tuple(lines),
    )
