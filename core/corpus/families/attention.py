"""Scaled dot-product attention: causal or not, with or without an added mask, in one kernel of running maxima.

A program takes a block of queries of one head and passes over the keys; it keeps each query's maximum, sum and
weighted values, and corrects them when the maximum grows, so that no score is ever stored. A causal kernel stops at
the diagonal. The other style holds all of a row's keys at once, for short sequences.
"""

from __future__ import annotations

from attrs import frozen

from ...task import Example
from ..builder.drafts import Device, Draft, make_kernel
from ..builder.draw import Draw
from ..builder.spec import Size, Spec, draw_size
from ..builder.tiles import Tile
from ..builder.wording import Kernel, Names, draw_names, finish

_NAMES = {
    4: (
        ("B", "H", "S", "D"),
        ("BATCH", "HEADS", "SEQ", "HEAD_DIM"),
        ("batch_size", "num_heads", "seq_len", "head_dim"),
    ),
    3: (("B", "S", "D"), ("BATCH", "SEQ", "DIM"), ("batch_size", "seq_len", "dim")),
}
_MAX_WHOLE = 128
_LOW = '-float("inf")'


def draw_attention(draw: Draw, family: str) -> Spec:
    """Draw attention of one head or several."""
    rank = draw.choice((4, 4, 3))
    batch = Size(declared=draw.between(1, 4) if rank == 4 else draw.between(2, 8), tiny=2, small=2, larger=3)
    heads = (Size(declared=draw.between(2, 8), tiny=draw.choice((2, 3)), small=2, larger=3),) if rank == 4 else ()
    length = draw_size(draw, draw.size(64, 512), (5, 7, 9), (19, 29), (37, 47))
    depth = draw_size(draw, draw.choice((16, 32, 32, 64, 24, 40, 48)), (3, 4, 5), (9, 14), (17, 24))
    return Spec(
        producer=draw.choice(("plain", "plain", "causal", "causal", "masked")),
        sizes=(batch, *heads, length, depth),
    )


def write_attention(spec: Spec, task_id: str, draw: Draw) -> Example:
    """Write the task and a teacher for scaled dot-product attention."""
    rank = len(spec.sizes)
    names = draw_names(draw, _NAMES[rank])
    q, k, v = draw.choice((("q", "k", "v"), ("q", "k", "v"), ("query", "key", "value")))
    length = names.dimensions[-2]
    draft = Draft()
    for name in (q, k, v):
        draft.take(name, f"torch.randn({names.shape})")
    form, mask = spec.producer, ""
    if form == "masked":
        mask = draw.choice(("bias", "mask", "attn_bias"))
        draft.take(mask, f"torch.randn({length}, {length})")
    is_written = draw.chance(0.5)
    if is_written:
        scores = f"scores = {q} @ {k}.transpose(-2, -1) / {q}.shape[-1] ** 0.5"
        if draw.chance(0.4):
            scores = f"scores = torch.matmul({q}, {k}.transpose(-2, -1)) * ({q}.shape[-1] ** -0.5)"
        forward = [scores]
        if form == "causal":
            size = f"{q}.shape[-2]"
            forward.append(f"mask = torch.ones({size}, {size}, dtype=torch.bool, device={q}.device).tril()")
            forward.append('scores = scores.masked_fill(~mask, float("-inf"))')
        if mask:
            forward.append(f"scores = scores + {mask}")
        forward.append(f"return torch.softmax(scores, dim=-1) @ {v}")
    else:
        more = {"causal": ", is_causal=True", "masked": f", attn_mask={mask}", "plain": ""}[form]
        forward = [f"return F.scaled_dot_product_attention({q}, {k}, {v}{more})"]
    text = {
        "plain": "Scaled dot-product attention",
        "causal": "Causal scaled dot-product attention",
        "masked": f"Scaled dot-product attention with {mask} added to the scores",
    }[form]
    kernel = _write_kernel(spec, names, (q, k, v), mask, draft, draw)
    return finish(spec, task_id, f"{text}.", draft.reference(forward), kernel, names, draw)


@frozen(kw_only=True)
class _Words(Tile):
    """The names in one kernel: rows of queries and keys, the head's depth (`rk`), their block sizes and lengths."""

    seq: str
    dim: str


def _write_kernel(
    spec: Spec, names: Names, inputs: tuple[str, str, str], mask: str, draft: Draft, draw: Draw
) -> Kernel:
    declared = spec.sizes[-2].declared
    style = draw.choice(("flash", "flash", "whole")) if declared <= _MAX_WHOLE else "flash"
    result = names.beside(*inputs, mask).out
    rm, rn, rd = draw.choice((("rm", "rn", "rd"), ("offs_m", "offs_n", "offs_d")))
    bm, bn, bd = draw.choice((("BM", "BN", "BD"), ("BLOCK_M", "BLOCK_N", "BLOCK_D")))
    seq, dim = draw.choice((("seq", "dim"), ("S", "D"), ("n_ctx", "d")))
    words = _Words(rm=rm, rn=rn, rk=rd, bm=bm, bn=bn, bk=bd, seq=seq, dim=dim)
    scores = _write_scores(spec, names, inputs, mask, words)
    if style == "whole":
        lines = _attend_whole(words, scores, inputs[2], names)
        blocks = ("16", f"max(16, triton.next_power_of_2({seq}))")
    else:
        lines = _attend_in_blocks(spec, words, scores, inputs[2], names, draw)
        rows, columns = draw.choice(((32, 32), (32, 32), (16, 32), (32, 16), (16, 64)))
        blocks = (str(rows), str(columns))
    name = draw.choice(("attention", "attn", "flash_attention" if style == "flash" else "sdpa")) + names.suffix
    scale = ("scale", draw.choice((f"{dim} ** -0.5", f"1.0 / {dim}**0.5")))
    q = inputs[0]
    device = Device(
        name=name,
        arguments=draft.pass_to(names.ptr, result, [seq, dim, scale], len(draft.tensors)),
        constants=((bm, blocks[0]), (bn, blocks[1]), (bd, f"max(16, triton.next_power_of_2({dim}))")),
        body=(
            f"{rm} = tl.program_id(0) * {bm} + tl.arange(0, {bm})",
            f"start = tl.program_id(1) * {seq} * {dim}",
            f"{rd} = tl.arange(0, {bd})",
            f"q_mask = ({rm}[:, None] < {seq}) & ({rd}[None, :] < {dim})",
            f"q_offs = start + {rm}[:, None] * {dim} + {rd}[None, :]",
            f"{q} = tl.load({names.ptr(q)} + q_offs, mask=q_mask, other=0.0)",
            *lines[:-1],
            f"tl.store({names.ptr(result)} + q_offs, {lines[-1]}, mask=q_mask)",
        ),
    )
    host = [f"{seq}, {dim} = <{q}>.shape[-2:]", f"{result} = torch.empty_like(<{q}>)"]
    heads = f"<{q}>.shape[0] * <{q}>.shape[1]" if len(spec.sizes) == 4 else f"<{q}>.shape[0]"
    host.append(device.launch(f"(triton.cdiv({seq}, {blocks[0]}), {heads})"))
    return make_kernel([device], host, draft.tensors, result, f"attention-{style}")


def _write_scores(spec: Spec, names: Names, inputs: tuple[str, str, str], mask: str, words: _Words) -> list[str]:
    """Write the scores of a block of keys, -inf where there is none or it comes after the query."""
    q, k, _ = inputs
    rows, columns, depth = f"{words.rm}[:, None]", f"{words.rn}[None, :]", f"{words.rk}[None, :]"
    seq, dim = words.seq, words.dim
    lines = [
        f"kv_mask = ({words.rn}[:, None] < {seq}) & ({depth} < {dim})",
        f"kv_offs = start + {words.rn}[:, None] * {dim} + {depth}",
        f"{k} = tl.load({names.ptr(k)} + kv_offs, mask=kv_mask, other=0.0)",
        f'scores = tl.dot({q}, tl.trans({k}), input_precision="ieee") * scale',
    ]
    if mask:
        within = f"({rows} < {seq}) & ({columns} < {seq})"
        added = f"tl.load({names.ptr(mask)} + {rows} * {seq} + {columns}, mask={within}, other=0.0)"
        lines.append(f"scores += {added}")
    valid = f"{columns} < {seq}"
    if spec.producer == "causal":
        valid = f"({valid}) & ({columns} <= {rows})"
    return [*lines, f"scores = tl.where({valid}, scores, {_LOW})"]


def _attend_whole(words: _Words, scores: list[str], v: str, names: Names) -> list[str]:
    """Write the softmax over all keys at once, and the values that it weighs; the result's expression comes last."""
    return [
        f"{words.rn} = tl.arange(0, {words.bn})",
        *scores,
        "scores = tl.exp(scores - tl.max(scores, axis=1)[:, None])",
        "scores = scores / tl.sum(scores, axis=1)[:, None]",
        f"{v} = tl.load({names.ptr(v)} + kv_offs, mask=kv_mask, other=0.0)",
        f'acc = tl.dot(scores, {v}, input_precision="ieee")',
        "acc",
    ]


def _attend_in_blocks(spec: Spec, words: _Words, scores: list[str], v: str, names: Names, draw: Draw) -> list[str]:
    """Write the loop over blocks of keys with a running softmax; the result's expression comes last."""
    bm, bn, seq = words.bm, words.bn, words.seq
    top, total = draw.choice((("m_i", "l_i"), ("top", "total")))
    stop = f"tl.minimum({seq}, (tl.program_id(0) + 1) * {bm})" if spec.producer == "causal" else seq
    inner = [
        f"{words.rn} = begin + tl.arange(0, {bn})",
        *scores,
        f"new_top = tl.maximum({top}, tl.max(scores, axis=1))",
        "p = tl.exp(scores - new_top[:, None])",
        f"alpha = tl.exp({top} - new_top)",
        f"{total} = {total} * alpha + tl.sum(p, axis=1)",
        f"{v} = tl.load({names.ptr(v)} + kv_offs, mask=kv_mask, other=0.0)",
        f'acc = acc * alpha[:, None] + tl.dot(p, {v}, input_precision="ieee")',
        f"{top} = new_top",
    ]
    return [
        f"{top} = tl.full(({bm},), {_LOW}, dtype=tl.float32)",
        f"{total} = tl.zeros(({bm},), dtype=tl.float32)",
        f"acc = tl.zeros(({bm}, {words.bk}), dtype=tl.float32)",
        f"for begin in range(0, {stop}, {bn}):",
        *(f"    {line}" for line in inner),
        f"acc / {total}[:, None]",
    ]
