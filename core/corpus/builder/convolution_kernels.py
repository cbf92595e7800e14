"""Kernels for convolutions: implicit matrix products, products for one tap, and direct sums for few channels.

A convolution with many channels is a product of the elements under the windows and the weights, whose inner index runs
over channels and taps: found by division (`product`), or in loops over taps with a product a tap (`taps`). A
convolution that has few channels a filter sums directly, one plane of the result after the other (`planes`) or over all
of it (`flat`). A width of one is a product as it stands (`pointwise`). What follows runs on the accumulator. In a
depthwise separable convolution the product sums what it reads as it is needed (`separable_kernel`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import frozen

from .draw import Draw
from .operations import Operand
from .tiles import draw_tile
from .window_code import WindowCode

Epilogue = Callable[[str, Callable[[str, Operand], str]], list[str]]
"""Statements on the accumulator, given how operands are loaded."""

_TILES = ((32, 32), (64, 32), (64, 64), (32, 64), (64, 16), (64, 32))


def draw_blocks(draw: Draw, inner: int) -> tuple[int, int, int]:
    """Draw the block sizes of a product with an inner index up to `inner`: long steps where it is long."""
    depths = (16, 16, 32) if inner <= 96 else (32, 32, 16) if inner <= 320 else (32, 64) if inner <= 640 else (64,)
    return (*draw.choice(_TILES), draw.choice(depths))


@frozen(kw_only=True)
class KernelParts:
    """A kernel before it has a name: its lines, sizes it is passed, constants, the grid, and the style."""

    lines: list[str]
    sizes: list[tuple[str, str]]
    constants: list[tuple[str, str]]
    grid: str
    style: str


@frozen(kw_only=True)
class Wording:
    """The names in one kernel; pointers are whole names of parameters."""

    x: str
    x_pointer: str
    weight: str
    weight_pointer: str
    out_pointer: str
    filters: str
    """The number of filters."""
    acc: str
    offsets: str
    block: str
    cast: str = ""
    pointer: Callable[[str], str]


def product_kernel(
    code: WindowCode, words: Wording, groups: int, channels: int, epilogue: Epilogue, draw: Draw
) -> KernelParts:
    """Write an implicit matrix product over `channels` declared ones; the grid's last axis runs over groups."""
    # loops over many taps with few channels each would leave most of a product empty
    is_by_tap = channels >= 16 and code.window.taps <= 9 and draw.chance(0.6)
    names = draw_tile(draw)
    rm, rn, rk, bk = names.rm, names.rn, names.rk, names.bk
    inner, filters, acc = ("CG", "FG", words.acc) if groups > 1 else ("C", words.filters, words.acc)
    plane = code.plane
    lines = names.place()
    if groups > 1:
        lines.append("g = tl.program_id(2)")
    lines += code.split_places(rm, True)
    lines += [f"n = {rm} // {plane}", names.zeros(acc)]
    lead = "n * C + g * CG" if groups > 1 else "n * C"
    read = _Product(code, words, rm, rn, rk, bk, inner, filters, lead, acc, groups > 1)
    lines += read.by_tap() if is_by_tap else read.whole()
    channel = f"g * FG + {rn}" if groups > 1 else rn
    if groups > 1:
        lines.append(f"f = {channel}")
        channel = "f"

    def load(operand: str, kind: Operand) -> str:
        if kind is Operand.VECTOR:
            return f"tl.load({words.pointer(operand)} + {channel}, mask={rn} < {filters})"
        return f"tl.load({words.pointer(operand)} + {words.offsets}, mask=mask)"

    lines += [
        # not `rm % plane`: beside `rm // plane` it made LLVM abort on one of 500 teachers
        f"{words.offsets} = {code.result_address(f'n * {words.filters} + {channel}')}",
        f"mask = ({rm} < M) & ({rn} < {filters})",
        *epilogue(acc, load),
        f"tl.store({words.out_pointer} + {words.offsets}, {acc}, mask=mask)",
    ]
    tile = draw_blocks(draw, channels if is_by_tap else channels * code.window.taps)
    count = " * ".join(("N", *code.outs))
    sizes = [("M", count), ("C", "C"), (words.filters, words.filters)]
    if groups > 1:
        sizes += [("CG", f"C // {groups}"), ("FG", f"{words.filters} // {groups}")]
    sizes += [(name, name) for name in (*code.axes, *code.outs)]
    columns = f"{words.filters} // {groups}" if groups > 1 else words.filters
    grid = f"(triton.cdiv({count}, {tile[0]}), triton.cdiv({columns}, {tile[1]}){f', {groups}' if groups > 1 else ''})"
    constants = [*code.constants, *names.constants(tile)]
    style = "taps" if is_by_tap else "product"
    return KernelParts(lines=lines, sizes=drop_unused(sizes, lines), constants=constants, grid=grid, style=style)


@frozen
class _Product:
    """The loop of an implicit matrix product."""

    code: WindowCode
    words: Wording
    rm: str
    rn: str
    rk: str
    bk: str
    channels: str
    filters: str
    lead: str
    acc: str
    has_groups: bool

    def _weight(self, channel: str, tap: str) -> str:
        """Write a weight's address: (filters, channels, taps), or (channels, filters, taps) where it is transposed."""
        code = self.code
        if code.window.is_transposed:
            first = f"g * CG + {channel}" if self.has_groups else channel
            row = f"{f'({first})' if self.has_groups else first} * {self.filters} + {self.rn}"
        else:
            first = f"(g * FG + {self.rn})" if self.has_groups else self.rn
            row = f"{first} * {self.channels} + {channel}"
        return code.tap_address(row) if tap == "loops" else f"({row}) * {code.taps}{f' + {tap}' if tap else ''}"

    def _dot(self) -> str:
        return f'{self.acc} += tl.dot({self.words.x}, {self.words.weight}, input_precision="ieee")'

    def whole(self) -> list[str]:
        """Write one loop over channels and taps together."""
        code, words, rk = self.code, self.words, self.rk
        taps = code.split_taps(rk)
        inner = "K"
        lines = [f"{rk} = k + tl.arange(0, {self.bk})"]
        lines += [f"{name} = ({expression})[None, :]" for name, expression in taps]
        for side in range(code.window.rank):
            lines += code.find_source(side)
        conditions = [c for side in range(code.window.rank) if (c := code.is_inside(side))]
        mask = " & ".join((f"({self.rm} < M)", f"({rk}[None, :] < {inner})"))
        if conditions:
            lines.append(f"inside = {' & '.join(conditions)}")
            mask = f"inside & {mask}"
        channel = f"({rk} // {code.taps})[None, :]"
        lines.append(
            f"{words.x} = tl.load({words.x_pointer} + {code.address(f'{self.lead} + {channel}')}, "
            f"mask={mask}, other=0.0)"
        )
        if code.window.is_transposed:
            place = self._weight(f"({rk} // {code.taps})[:, None]", f"({rk} % {code.taps})[:, None]")
        else:
            first = f"(g * FG + {self.rn})" if self.has_groups else self.rn
            place = f"{first} * {inner} + {rk}[:, None]"
        mask = f"({rk}[:, None] < {inner}) & ({self.rn} < {self.filters})"
        lines.append(f"{words.weight} = tl.load({words.weight_pointer} + {place}, mask={mask}, other=0.0)")
        lines.append(self._dot())
        head = [f"{inner} = {self.channels} * {code.taps}", f"for k in range(0, {inner}, {self.bk}):"]
        return [*head, *(f"    {line}" for line in lines)]

    def by_tap(self) -> list[str]:
        """Write loops over the taps, and over channels within."""
        code, words, rk = self.code, self.words, self.rk
        address = code.address(f"{self.lead} + {rk}[None, :]")
        outer = "inside" if code.is_guarded else f"({self.rm} < M)"
        body = [
            f"for k in range(0, {self.channels}, {self.bk}):",
            f"    {rk} = k + tl.arange(0, {self.bk})",
            f"    {words.x} = tl.load({words.x_pointer} + {address}, "
            f"mask={outer} & ({rk}[None, :] < {self.channels}), other=0.0)",
            f"    {words.weight} = tl.load({words.weight_pointer} + {self._weight(f'{rk}[:, None]', 'loops')}, "
            f"mask=({rk}[:, None] < {self.channels}) & ({self.rn} < {self.filters}), other=0.0)",
            f"    {self._dot()}",
        ]
        return code.loop_taps("range", f"({self.rm} < M)" if code.is_guarded else "", body)


def pointwise_kernel(words: Wording, length: str, channels: int, epilogue: Epilogue, draw: Draw) -> KernelParts:
    """Write a product of the weights and each sample: filters by elements of a plane, `length` of them on the host.

    `channels` are declared.
    """
    names = draw_tile(draw)
    rm, rn, rk, bk = names.rm, names.rn, names.rk, names.bk
    acc, filters, size = words.acc, words.filters, draw.choice(("P", "P", "HW", "S"))
    is_batch_first = draw.chance(0.4)
    batch, row, column = ("0", "1", "2") if is_batch_first else ("2", "0", "1")
    lines = [
        f"n = tl.program_id({batch})",
        *names.begin(acc, f"tl.program_id({row})", f"tl.program_id({column})"),
        f"for k in range(0, C, {bk}):",
        f"    {rk} = k + tl.arange(0, {bk})",
        f"    {words.weight} = tl.load({words.weight_pointer} + {rm} * C + {rk}[None, :], "
        f"mask=({rm} < {filters}) & ({rk}[None, :] < C), other=0.0)",
        f"    {words.x} = tl.load({words.x_pointer} + (n * C + {rk}[:, None]) * {size} + {rn}, "
        f"mask=({rk}[:, None] < C) & ({rn} < {size}), other=0.0)",
        f'    {acc} += tl.dot({words.weight}, {words.x}, input_precision="ieee")',
        f"{words.offsets} = (n * {filters} + {rm}) * {size} + {rn}",
        f"mask = ({rm} < {filters}) & ({rn} < {size})",
    ]

    def load(operand: str, kind: Operand) -> str:
        if kind is Operand.VECTOR:
            return f"tl.load({words.pointer(operand)} + {rm}, mask={rm} < {filters})"
        return f"tl.load({words.pointer(operand)} + {words.offsets}, mask=mask)"

    lines += [*epilogue(acc, load), f"tl.store({words.out_pointer} + {words.offsets}, {acc}, mask=mask)"]
    tile = draw_blocks(draw, channels)
    blocks = [f"triton.cdiv({filters}, {tile[0]})", f"triton.cdiv({length}, {tile[1]})"]
    grid = f"({', '.join(['N', *blocks] if is_batch_first else [*blocks, 'N'])})"
    constants = names.constants(tile)
    sizes = [("C", "C"), (filters, filters), (size, length)]
    return KernelParts(lines=lines, sizes=sizes, constants=constants, grid=grid, style="pointwise")


@frozen(kw_only=True)
class Spots:
    """The spread of a result over a kernel's programs: flat, or one plane after the other."""

    code: WindowCode
    is_flat: bool
    offsets: str
    block: str
    place: str
    total: str
    """The name of the number of elements, for a flat kernel."""

    def begin(self) -> list[str]:
        """Write the places of a program's elements, and the planes (`row`) that they lie in."""
        code, size = self.code, self.block
        if self.is_flat:
            return [
                f"{self.offsets} = tl.program_id(0) * {size} + tl.arange(0, {size})",
                f"mask = {self.offsets} < {self.total}",
                *code.split_places(self.offsets, True),
                f"row = {self.offsets} // {code.plane}",
            ]
        return [
            "row = tl.program_id(0)",
            f"{self.place} = tl.program_id(1) * {size} + tl.arange(0, {size})",
            f"mask = {self.place} < {' * '.join(code.outs)}",
            *([] if code.window.rank == 1 else code.split_places(self.place, False)),
        ]

    def locate(self) -> list[str]:
        """Write the offsets of the program's elements in the result, where they are not known yet."""
        return [] if self.is_flat else [f"{self.offsets} = row * {self.code.plane} + {self.place}"]

    def spread(self, rows: str, block: int) -> tuple[str, list[tuple[str, str]]]:
        """Return the grid over `rows` planes, and the size that only a flat kernel takes."""
        count = " * ".join(self.code.outs)
        if self.is_flat:
            return f"(triton.cdiv({rows} * {count}, {block}),)", [(self.total, f"{rows} * {count}")]
        return f"({rows}, triton.cdiv({count}, {block}))", []

    def draw_block(self, draw: Draw) -> int:
        """Draw how many elements a program takes."""
        return draw.choice((512, 1024, 1024)) if self.is_flat else draw.choice((128, 256, 256, 512))


def direct_kernel(
    code: WindowCode, words: Wording, groups: int, multiplier: int, epilogue: Epilogue, draw: Draw
) -> KernelParts:
    """Write a sum over taps: of one channel, with `multiplier` filters, or of a group's where `groups` is not 0."""
    # one plane a program is little work where there are many taps to read
    is_flat = groups > 0 or code.window.taps > 9 or draw.chance(0.5)
    place = code.place(0) if code.window.rank == 1 else draw.choice(("p", "p", "q", "spot"))
    total = draw.choice(("total", "num", "numel")) if is_flat else ""
    spots = Spots(code=code, is_flat=is_flat, offsets=words.offsets, block=words.block, place=place, total=total)
    weight_mask = ", mask=mask" if is_flat else ""

    def load(operand: str, kind: Operand) -> str:
        if kind is Operand.VECTOR:
            return f"tl.load({words.pointer(operand)} + f{weight_mask}){words.cast}"
        return f"tl.load({words.pointer(operand)} + {words.offsets}, mask=mask){words.cast}"

    lines = [
        *spots.begin(),
        f"f = row % {words.filters}",
        f"{words.acc} = tl.zeros(({words.block},), dtype=tl.float32)",
        *_sum_taps(code, words, groups, multiplier, weight_mask, draw),
        *spots.locate(),
        *epilogue(words.acc, load),
        f"tl.store({words.out_pointer} + {words.offsets}, {words.acc}, mask=mask)",
    ]
    block = spots.draw_block(draw)
    grid, sizes = spots.spread(f"N * {words.filters}", block)
    sizes.append((words.filters, words.filters))
    if groups:
        sizes += [("C", "C"), ("CG", f"C // {groups}"), ("FG", f"{words.filters} // {groups}")]
    sizes += [(name, name) for name in (*code.axes, *code.outs)]
    return KernelParts(
        lines=lines,
        sizes=drop_unused(sizes, lines),
        constants=[*code.constants, (words.block, str(block))],
        grid=grid,
        style="flat" if is_flat else "planes",
    )


def _sum_taps(
    code: WindowCode, words: Wording, groups: int, multiplier: int, weight_mask: str, draw: Draw
) -> list[str]:
    """Write the loops over the taps, and over a group's channels around them."""
    source, weight = "row", "f"
    if groups:
        source, weight = f"row // {words.filters} * C + f // FG * CG + c", "f * CG + c"
    elif multiplier > 1:
        source = f"row // {multiplier}"
    mask = "inside" if code.is_guarded else "mask"
    body = [
        f"{words.x} = tl.load({words.x_pointer} + {code.address(source)}, mask={mask}, other=0.0){words.cast}",
        f"{words.weight} = tl.load({words.weight_pointer} + {code.tap_address(weight)}{weight_mask}){words.cast}",
        f"{words.acc} += {words.x} * {words.weight}",
    ]
    head = draw.choice(("range", "range", "tl.static_range")) if code.window.taps <= 9 else "range"
    loops = code.loop_taps(head, "mask" if code.is_guarded else "", body)
    return ["for c in range(CG):", *(f"    {line}" for line in loops)] if groups else loops


def drop_unused(sizes: Sequence[tuple[str, str]], lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the sizes that the lines name."""
    words = set("".join(c if c.isalnum() or c == "_" else " " for c in "\n".join(lines)).split())
    return [(name, value) for name, value in sizes if name in words]


def separable_kernel(
    code: WindowCode,
    words: Wording,
    pointwise: tuple[str, str, str],
    channels: int,
    epilogue: Epilogue,
    draw: Draw,
) -> KernelParts:
    """Write a depthwise and a pointwise convolution in one kernel.

    `words` name the depthwise weights, `pointwise` the others and the pointers of both biases. The depthwise result of
    a block of channels never leaves the program; programs for other filters sum it again, which costs less than to
    write and read it.
    """
    weight, pointer, bias = pointwise
    tile = draw_tile(draw)
    rm, rn, rk, bm, bk = tile.rm, tile.rn, tile.rk, tile.bm, tile.bk
    filters, acc, plane, mid = words.filters, words.acc, code.plane, draw.choice(("mid", "mid", "h"))
    outer = "inside" if code.is_guarded else f"({rm} < M)"
    address = code.address(f"n * C + {rk}")
    taps = [
        f"{words.x} = tl.load({words.x_pointer} + {address}, mask={outer} & ({rk} < C), other=0.0)",
        f"{words.weight} = tl.load({words.weight_pointer} + {code.tap_address(rk)}, mask={rk} < C, other=0.0)",
        f"{mid} += {words.x} * {words.weight}",
    ]
    inner = [
        f"{rk} = k + tl.arange(0, {bk})[None, :]",
        f"{mid} = tl.zeros(({bm}, {bk}), dtype=tl.float32)",
        *code.loop_taps("range", f"({rm} < M)" if code.is_guarded else "", taps),
        *([f"{mid} += tl.load({bias} + {rk}, mask={rk} < C, other=0.0)"] if bias else []),
        f"c = k + tl.arange(0, {bk})[:, None]",
        f"{weight} = tl.load({pointer} + {rn} * C + c, mask=(c < C) & ({rn} < {filters}), other=0.0)",
        f'{acc} += tl.dot({mid}, {weight}, input_precision="ieee")',
    ]
    lines = [
        *tile.place(),
        *code.split_places(rm, True),
        f"n = {rm} // {plane}",
        tile.zeros(acc),
        f"for k in range(0, C, {bk}):",
        *(f"    {line}" for line in inner),
        f"{words.offsets} = (n * {filters} + {rn}) * {plane} + {rm} % {plane}",
        f"mask = ({rm} < M) & ({rn} < {filters})",
    ]

    def load(operand: str, kind: Operand) -> str:
        if kind is Operand.VECTOR:
            return f"tl.load({words.pointer(operand)} + {rn}, mask={rn} < {filters})"
        return f"tl.load({words.pointer(operand)} + {words.offsets}, mask=mask)"

    lines += [*epilogue(acc, load), f"tl.store({words.out_pointer} + {words.offsets}, {acc}, mask=mask)"]
    blocks = draw_blocks(draw, channels)
    count = " * ".join(("N", *code.outs))
    sizes = [(name, name) for name in ("C", filters, *code.axes, *code.outs)]
    constants = [*code.constants, *tile.constants(blocks)]
    return KernelParts(
        lines=lines,
        sizes=drop_unused([("M", count), *sizes], lines),
        constants=constants,
        grid=f"(triton.cdiv({count}, {blocks[0]}), triton.cdiv({filters}, {blocks[1]}))",
        style="fused",
    )
