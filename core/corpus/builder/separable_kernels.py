"""A depthwise separable convolution in one kernel: what the product reads is summed as it is needed.

The depthwise result of a block of channels is as long as the block of places, so it never leaves the program; programs
for other filters sum it again, which costs less than to write and read it.
"""

from __future__ import annotations

from .convolution_kernels import Epilogue, KernelParts, Wording, draw_blocks, drop_unused
from .draw import Draw
from .operations import Operand
from .tiles import draw_tile
from .window_code import WindowCode


def separable_kernel(
    code: WindowCode,
    words: Wording,
    pointwise: tuple[str, str, str],
    channels: int,
    epilogue: Epilogue,
    draw: Draw,
) -> KernelParts:
    """Write the kernel; `words` name the depthwise weights, `pointwise` the others and the pointers of both biases."""
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
