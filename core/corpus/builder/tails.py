"""Writes last steps as kernels of their own, since they read more than one element of what came before.

Pooling by two, a mean over all sides, and a minimum, log-sum-exp or softmax over the channels need results that other
programs of the producer's kernel have written, so a good engineer launches again.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from .drafts import Device
from .draw import Draw
from .window_code import LETTERS
from .wording import Names

TAILS = ("max_pool", "avg_pool", "global_mean", "channel_min", "channel_logsumexp", "channel_softmax")


@frozen(kw_only=True)
class Tail:
    """A last step as it was written: what the reference computes, and a kernel that reads `mid`."""

    expression: str
    text: str
    device: Device
    grid: str
    shape: tuple[str, ...]
    """The result's, from the lengths that the host knows."""
    host: tuple[str, ...] = ()


def write_tail(name: str, x: str, outs: Sequence[str], filters: str, names: Names, result: str, draw: Draw) -> Tail:
    """Write the tail of a producer whose result has `filters` channels and the sides `outs`."""
    if name.endswith("_pool"):
        return _pool(name, x, outs, filters, names, result, draw)
    if name == "global_mean":
        return _mean(x, outs, filters, names, result, draw)
    return _channels(name, x, outs, filters, names, result, draw)


def _pool(name: str, x: str, outs: Sequence[str], filters: str, names: Names, result: str, draw: Draw) -> Tail:
    rank, is_max = len(outs), name == "max_pool"
    size, offsets, value = names.block, names.offsets, draw.choice(("v", "acc", "best" if is_max else "total"))
    letters = [LETTERS[out[-1]] for out in outs]
    pooled = [f"P{out[-1]}" for out in outs]
    lines = [f"{offsets} = tl.program_id(0) * {size} + tl.arange(0, {size})", f"mask = {offsets} < num"]
    for side in reversed(range(rank)):
        later = pooled[side + 1 :]
        divisor = later[0] if len(later) == 1 else f"({' * '.join(later)})"
        lines.append(f"p{letters[side]} = {offsets}{f' // {divisor}' if later else ''} % {pooled[side]}")
    plane = pooled[0] if rank == 1 else f"({' * '.join(pooled)})"
    lines.append(f"row = {offsets} // {plane}")
    start = (
        f'tl.full(({size},), -float("inf"), dtype=tl.float32)' if is_max else f"tl.zeros(({size},), dtype=tl.float32)"
    )
    lines.append(f"{value} = {start}")
    address = "row"
    for letter, out in zip(letters, outs, strict=True):
        address = f"{address if ' ' not in address else f'({address})'} * {out} + p{letter} * 2 + i{letter}"
    indent = ""
    for letter in letters:
        lines.append(f"{indent}for i{letter} in range(2):")
        indent += "    "
    other = '-float("inf")' if is_max else "0.0"
    lines.append(f"{indent}mid = tl.load({names.ptr('mid')} + {address}, mask=mask, other={other})")
    lines.append(f"{indent}{value} = tl.maximum({value}, mid)" if is_max else f"{indent}{value} += mid")
    if not is_max:
        lines.append(f"{value} = {value} / {2**rank}")
    lines.append(f"tl.store({names.ptr(result)} + {offsets}, {value}, mask=mask)")
    block = draw.choice((256, 512, 1024))
    count = " * ".join(("N", filters, *pooled))
    arguments = [(names.ptr("mid"), "mid"), (names.ptr(result), result), ("num", count)]
    arguments += [(length, length) for length in (*outs, *pooled)]
    device = Device(
        name=f"pool{names.suffix}", arguments=tuple(arguments), constants=((size, str(block)),), body=tuple(lines)
    )
    return Tail(
        expression=f"F.{'max' if is_max else 'avg'}_pool{rank}d({x}, 2)",
        text=f"{rank}-D {'max' if is_max else 'average'} pooling, kernel {'x'.join('2' * rank)}",
        device=device,
        grid=f"(triton.cdiv({count}, {block}),)",
        shape=("N", filters, *pooled),
        host=(f"{', '.join(pooled)} = {', '.join(f'{out} // 2' for out in outs)}",),
    )


def _mean(x: str, outs: Sequence[str], filters: str, names: Names, result: str, draw: Draw) -> Tail:
    size, columns = names.block, names.columns
    lines = [
        "row = tl.program_id(0)",
        f"acc = tl.zeros(({size},), dtype=tl.float32)",
        f"for start in range(0, P, {size}):",
        f"    {columns} = start + tl.arange(0, {size})",
        f"    acc += tl.load({names.ptr('mid')} + row * P + {columns}, mask={columns} < P, other=0.0)",
        f"tl.store({names.ptr(result)} + row, tl.sum(acc, axis=0) / P)",
    ]
    arguments = ((names.ptr("mid"), "mid"), (names.ptr(result), result), ("P", " * ".join(outs)))
    block = draw.choice((256, 512, 1024))
    dims = ", ".join(str(2 + side) for side in range(len(outs)))
    return Tail(
        expression=f"torch.mean({x}, dim={f'({dims})' if len(outs) > 1 else dims})",
        text="mean over all but the first two dimensions",
        device=Device(
            name=f"mean{names.suffix}", arguments=arguments, constants=((size, str(block)),), body=tuple(lines)
        ),
        grid=f"(N * {filters},)",
        shape=("N", filters),
    )


def _channels(name: str, x: str, outs: Sequence[str], filters: str, names: Names, result: str, draw: Draw) -> Tail:
    rows, size, offsets, kind = draw.choice((16, 32)), names.block, names.offsets, name.removeprefix("channel_")
    other = 'float("inf")' if kind == "min" else '-float("inf")'
    lines = [
        "rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]",
        f"c = tl.arange(0, {size})[None, :]",
        f"mask = (rows < M) & (c < {filters})",
        f"{offsets} = (rows // P * {filters} + c) * P + rows % P",
        f"mid = tl.load({names.ptr('mid')} + {offsets}, mask=mask, other={other})",
    ]
    keep = draw.chance(0.5) and kind != "softmax"
    single = f"tl.store({names.ptr(result)} + rows, {{}}, mask=rows < M)"
    # rows beyond the last hold nothing but infinities, whose difference is not a number
    highest = "m = tl.max(tl.where(rows < M, mid, 0.0), axis=1, keep_dims=True)"
    match kind:
        case "min":
            lines.append(single.format("tl.min(mid, axis=1, keep_dims=True)"))
        case "logsumexp":
            lines += [highest, "e = tl.sum(tl.exp(mid - m), axis=1, keep_dims=True)"]
            lines += ["e = tl.where(rows < M, e, 1.0)", single.format("m + tl.log(e)")]
        case _:
            lines += [
                highest,
                "e = tl.exp(mid - m)",
                "e = e / tl.sum(tl.where(rows < M, e, 1.0), axis=1, keep_dims=True)",
            ]
            lines.append(f"tl.store({names.ptr(result)} + {offsets}, e, mask=mask)")
    plane = " * ".join(outs)
    arguments = [(names.ptr("mid"), "mid"), (names.ptr(result), result), ("M", f"N * {plane}")]
    arguments += [(filters, filters), ("P", plane)]
    constants = ((size, f"triton.next_power_of_2({filters})"), ("ROWS", str(rows)))
    kept = ", keepdim=True" if keep else ""
    expressions = {
        "min": (f"torch.amin({x}, dim=1{kept})", "minimum over the channels"),
        "logsumexp": (f"torch.logsumexp({x}, dim=1{kept})", "log-sum-exp over the channels"),
        "softmax": (f"torch.softmax({x}, dim=1)", "softmax over the channels"),
    }
    expression, text = expressions[kind]
    middle = [filters] if kind == "softmax" else ["1"] if keep else []
    return Tail(
        expression=expression,
        text=text + (", which are kept as one" if keep else ""),
        device=Device(name=f"{kind}{names.suffix}", arguments=tuple(arguments), constants=constants, body=tuple(lines)),
        grid=f"(triton.cdiv(N * {plane}, {rows}),)",
        shape=("N", *middle, *outs),
    )
