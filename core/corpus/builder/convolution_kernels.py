"""Kernels for convolutions: implicit matrix products, products for one tap, and direct sums for few channels.

A convolution with many channels is a product of the elements under the windows and the weights, whose inner index runs
over channels and taps: found by division (`product`), or in loops over taps with a product a tap (`taps`). A
convolution that has few channels a filter sums directly, one plane of the result after the other (`planes`) or over all
of it (`flat`). A width of one is a product as it stands (`pointwise`). What follows runs on the accumulator. In a
depthwise separable convolution the product sums what it reads as it is needed (`separable_kernel`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from attrs import frozen

from .draw import Draw
from .operations import Operand
from .tiles import Tile, draw_tile
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

    def end(self, epilogue: Epilogue, channel: str, mask: str) -> list[str]:
        """Write what follows on the accumulator, with vectors read at `channel` where `mask` holds, and the store."""

        def load(operand: str, kind: Operand) -> str:
            place = f"{channel}{f', mask={mask}' if mask else ''}"
            if kind is not Operand.VECTOR:
                place = f"{self.offsets}, mask=mask"
            return f"tl.load({self.pointer(operand)} + {place}){self.cast}"

        return [*epilogue(self.acc, load), f"tl.store({self.out_pointer} + {self.offsets}, {self.acc}, mask=mask)"]


def product_kernel(
    code: WindowCode, words: Wording, groups: int, channels: int, epilogue: Epilogue, draw: Draw
) -> KernelParts:
    """Write an implicit matrix product over `channels` declared ones; the grid's last axis runs over groups."""
    # loops over many taps with few channels each would leave most of a product empty
    is_by_tap = channels >= 16 and code.window.taps <= 9 and draw.chance(0.6)
    tile = draw_tile(draw)
    rm, rn, plane = tile.rm, tile.rn, code.plane
    inner, filters, channel = ("CG", "FG", "f") if groups > 1 else ("C", words.filters, rn)
    read = _Product(code=code, words=words, tile=tile, channels=inner, filters=filters, has_groups=groups > 1)
    lines = [
        *tile.place(),
        *(["g = tl.program_id(2)"] if groups > 1 else []),
        *code.split_places(rm, True),
        f"n = {rm} // {plane}",
        tile.zeros(words.acc),
        *(read.by_tap() if is_by_tap else read.whole()),
        *([f"f = g * FG + {rn}"] if groups > 1 else []),
        # not `rm % plane`: beside `rm // plane` it made LLVM abort on one of 500 teachers
        f"{words.offsets} = {code.result_address(f'n * {words.filters} + {channel}')}",
        f"mask = ({rm} < M) & ({rn} < {filters})",
        *words.end(epilogue, channel, f"{rn} < {filters}"),
    ]
    blocks = draw_blocks(draw, channels if is_by_tap else channels * code.window.taps)
    count = " * ".join(("N", *code.outs))
    sizes = [("M", count), ("C", "C"), (words.filters, words.filters)]
    if groups > 1:
        sizes += [("CG", f"C // {groups}"), ("FG", f"{words.filters} // {groups}")]
    sizes += [(name, name) for name in (*code.axes, *code.outs)]
    programs = [f"triton.cdiv({count}, {blocks[0]})", f"triton.cdiv({dict(sizes)[filters]}, {blocks[1]})"]
    return KernelParts(
        lines=lines,
        sizes=drop_unused(sizes, lines),
        constants=[*code.constants, *tile.constants(blocks)],
        grid=f"({', '.join([*programs, *([str(groups)] if groups > 1 else [])])})",
        style="taps" if is_by_tap else "product",
    )


@frozen(kw_only=True)
class _Product:
    """The loop of an implicit matrix product."""

    code: WindowCode
    words: Wording
    tile: Tile
    channels: str
    filters: str
    has_groups: bool

    @property
    def _filter(self) -> str:
        return f"(g * FG + {self.tile.rn})" if self.has_groups else self.tile.rn

    def _weight(self, channel: str, tap: str) -> str:
        """Write a weight's address: (filters, channels, taps), or (channels, filters, taps) where it is transposed."""
        code, row = self.code, f"{self._filter} * {self.channels} + {channel}"
        if code.window.is_transposed:
            first = f"(g * CG + {channel})" if self.has_groups else channel
            row = f"{first} * {self.filters} + {self.tile.rn}"
        return code.tap_address(row) if tap == "loops" else f"({row}) * {code.taps} + {tap}"

    def _dot(self, source: str, mask: str, place: str, inner: str) -> list[str]:
        """Write the loads of both factors and their product."""
        words, rk, rn = self.words, self.tile.rk, self.tile.rn
        lead = "n * C + g * CG" if self.has_groups else "n * C"
        element = self.code.address(f"{lead} + {source}")
        return [
            f"{words.x} = tl.load({words.x_pointer} + {element}, mask={mask}, other=0.0)",
            f"{words.weight} = tl.load({words.weight_pointer} + {place}, "
            f"mask=({rk}[:, None] < {inner}) & ({rn} < {self.filters}), other=0.0)",
            f'{words.acc} += tl.dot({words.x}, {words.weight}, input_precision="ieee")',
        ]

    def whole(self) -> list[str]:
        """Write one loop over channels and taps together."""
        code, rk, bk = self.code, self.tile.rk, self.tile.bk
        lines = [f"{rk} = k + tl.arange(0, {bk})"]
        lines += [f"{name} = ({expression})[None, :]" for name, expression in code.split_taps(rk)]
        for side in range(code.window.rank):
            lines += code.find_source(side)
        mask = f"({self.tile.rm} < M) & ({rk}[None, :] < K)"
        if code.is_guarded:
            lines.append(f"inside = {' & '.join(code.conditions)}")
            mask = f"inside & {mask}"
        place = f"{self._filter} * K + {rk}[:, None]"
        if code.window.is_transposed:
            place = self._weight(f"({rk} // {code.taps})[:, None]", f"({rk} % {code.taps})[:, None]")
        lines += self._dot(f"({rk} // {code.taps})[None, :]", mask, place, "K")
        head = [f"K = {self.channels} * {code.taps}", f"for k in range(0, K, {bk}):"]
        return [*head, *(f"    {line}" for line in lines)]

    def by_tap(self) -> list[str]:
        """Write loops over the taps, and over channels within."""
        code, rk, bk, is_row = self.code, self.tile.rk, self.tile.bk, f"({self.tile.rm} < M)"
        mask = f"{'inside' if code.is_guarded else is_row} & ({rk}[None, :] < {self.channels})"
        inner = self._dot(f"{rk}[None, :]", mask, self._weight(f"{rk}[:, None]", "loops"), self.channels)
        body = [f"{rk} = k + tl.arange(0, {bk})", *inner]
        loop = [f"for k in range(0, {self.channels}, {bk}):", *(f"    {line}" for line in body)]
        return code.loop_taps("range", is_row if code.is_guarded else "", loop)


def pointwise_kernel(words: Wording, length: str, channels: int, epilogue: Epilogue, draw: Draw) -> KernelParts:
    """Write a product of the weights and each sample: filters by elements of a plane, `length` of them on the host.

    `channels` are declared.
    """
    tile = draw_tile(draw)
    rm, rn, rk, bk = tile.rm, tile.rn, tile.rk, tile.bk
    acc, filters, size = words.acc, words.filters, draw.choice(("P", "P", "HW", "S"))
    is_batch_first = draw.chance(0.4)
    batch, row, column = ("0", "1", "2") if is_batch_first else ("2", "0", "1")
    lines = [
        f"n = tl.program_id({batch})",
        *tile.begin(acc, f"tl.program_id({row})", f"tl.program_id({column})"),
        f"for k in range(0, C, {bk}):",
        f"    {rk} = k + tl.arange(0, {bk})",
        f"    {words.weight} = tl.load({words.weight_pointer} + {rm} * C + {rk}[None, :], "
        f"mask=({rm} < {filters}) & ({rk}[None, :] < C), other=0.0)",
        f"    {words.x} = tl.load({words.x_pointer} + (n * C + {rk}[:, None]) * {size} + {rn}, "
        f"mask=({rk}[:, None] < C) & ({rn} < {size}), other=0.0)",
        f'    {acc} += tl.dot({words.weight}, {words.x}, input_precision="ieee")',
        f"{words.offsets} = (n * {filters} + {rm}) * {size} + {rn}",
        f"mask = ({rm} < {filters}) & ({rn} < {size})",
        *words.end(epilogue, rm, f"{rm} < {filters}"),
    ]
    blocks = draw_blocks(draw, channels)
    programs = [f"triton.cdiv({filters}, {blocks[0]})", f"triton.cdiv({length}, {blocks[1]})"]
    return KernelParts(
        lines=lines,
        sizes=[("C", "C"), (filters, filters), (size, length)],
        constants=tile.constants(blocks),
        grid=f"({', '.join(['N', *programs] if is_batch_first else [*programs, 'N'])})",
        style="pointwise",
    )


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
    weight_mask = "mask" if is_flat else ""
    lines = [
        *spots.begin(),
        f"f = row % {words.filters}",
        f"{words.acc} = tl.zeros(({words.block},), dtype=tl.float32)",
        *_sum_taps(code, words, groups, multiplier, weight_mask, draw),
        *spots.locate(),
        *words.end(epilogue, "f", weight_mask),
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
    mask, masked = "inside" if code.is_guarded else "mask", f", mask={weight_mask}" if weight_mask else ""
    body = [
        f"{words.x} = tl.load({words.x_pointer} + {code.address(source)}, mask={mask}, other=0.0){words.cast}",
        f"{words.weight} = tl.load({words.weight_pointer} + {code.tap_address(weight)}{masked}){words.cast}",
        f"{words.acc} += {words.x} * {words.weight}",
    ]
    head = draw.choice(("range", "range", "tl.static_range")) if code.window.taps <= 9 else "range"
    loops = code.loop_taps(head, "mask" if code.is_guarded else "", body)
    return ["for c in range(CG):", *(f"    {line}" for line in loops)] if groups else loops


def drop_unused(sizes: Sequence[tuple[str, str]], lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return the sizes that the lines name."""
    words = set(re.findall(r"\w+", "\n".join(lines)))
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
        *words.end(epilogue, rn, f"{rn} < {filters}"),
    ]
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
