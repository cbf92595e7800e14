"""Scaled dot-product attention: causal or not, with or without an added mask, in one kernel of running maxima.

A program takes a block of queries of one head and passes over the keys; it keeps each query's maximum, sum and
weighted values, and corrects them when the maximum grows, so that no score is ever stored. A causal kernel stops at
the diagonal. The other style holds all of a row's keys at once, for short sequences.
"""

from __future__ import annotations

from ...task import Example
from ..builder.drafts import Device, Draft, make_kernel
from ..builder.draw import Draw
from ..builder.spec import Size, Spec, draw_size
from ..builder.wording import Kernel, Names, draw_names_among, finish

_NAMES = {
    4: (
        ("B", "H", "S", "D"),
        ("BATCH", "HEADS", "SEQ", "HEAD_DIM"),
        ("batch_size", "num_heads", "seq_len", "head_dim"),
    ),
    3: (("B", "S", "D"), ("BATCH", "SEQ", "DIM"), ("batch_size", "seq_len", "dim")),
}
_MAX_WHOLE = 128


def draw_attention(draw: Draw, family: str) -> Spec:
    """Attention of one head or several."""
    rank = draw.choice((4, 4, 3))
    batch = Size(declared=draw.between(1, 4) if rank == 4 else draw.between(2, 8), tiny=2, small=2, larger=3)
    heads = (Size(declared=draw.between(2, 8), tiny=draw.choice((2, 3)), small=2, larger=3),) if rank == 4 else ()
    length = draw_size(draw, draw.size(64, 512), (5, 7, 9), (19, 29), (37, 47))
    depth = draw_size(draw, draw.choice((16, 32, 32, 64, 24, 40, 48)), (3, 4, 5), (9, 14), (17, 24))
    return Spec(
        level=1,
        family=family,
        producer=draw.choice(("plain", "plain", "causal", "causal", "masked")),
        sizes=(batch, *heads, length, depth),
    )


def write_attention(spec: Spec, task_id: str, draw: Draw) -> Example:
    """The task and a teacher for scaled dot-product attention."""
    rank = len(spec.sizes)
    names = draw_names_among(draw, _NAMES[rank])
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
    kernel = _kernel(spec, names, (q, k, v), mask, draft, draw)
    return finish(spec, task_id, f"{text}.", draft.reference(forward), kernel, names, draw)


def _kernel(spec: Spec, names: Names, inputs: tuple[str, str, str], mask: str, draft: Draft, draw: Draw) -> Kernel:
    q, k, v = inputs
    declared = spec.sizes[-2].declared
    style = draw.choice(("flash", "flash", "whole")) if declared <= _MAX_WHOLE else "flash"
    result = names.beside(*inputs, mask).out
    rm, rn, rd = draw.choice((("rm", "rn", "rd"), ("offs_m", "offs_n", "offs_d")))
    bm, bn, bd = draw.choice((("BM", "BN", "BD"), ("BLOCK_M", "BLOCK_N", "BLOCK_D")))
    seq, dim = draw.choice((("seq", "dim"), ("S", "D"), ("n_ctx", "d")))
    is_causal = spec.producer == "causal"
    low = '-float("inf")'
    head = [
        f"{rm} = tl.program_id(0) * {bm} + tl.arange(0, {bm})",
        f"start = tl.program_id(1) * {seq} * {dim}",
        f"{rd} = tl.arange(0, {bd})",
        f"q_mask = ({rm}[:, None] < {seq}) & ({rd}[None, :] < {dim})",
        f"q_offs = start + {rm}[:, None] * {dim} + {rd}[None, :]",
        f"{q} = tl.load({names.ptr(q)} + q_offs, mask=q_mask, other=0.0)",
    ]
    scores = [
        f"kv_mask = ({rn}[:, None] < {seq}) & ({rd}[None, :] < {dim})",
        f"kv_offs = start + {rn}[:, None] * {dim} + {rd}[None, :]",
        f"{k} = tl.load({names.ptr(k)} + kv_offs, mask=kv_mask, other=0.0)",
        f'scores = tl.dot({q}, tl.trans({k}), input_precision="ieee") * scale',
    ]
    if mask:
        bias_mask = f"({rm}[:, None] < {seq}) & ({rn}[None, :] < {seq})"
        scores.append(
            f"scores += tl.load({names.ptr(mask)} + {rm}[:, None] * {seq} + {rn}[None, :], mask={bias_mask}, other=0.0)"
        )
    valid = f"{rn}[None, :] < {seq}"
    if is_causal:
        valid = f"({valid}) & ({rn}[None, :] <= {rm}[:, None])"
    scores.append(f"scores = tl.where({valid}, scores, {low})")
    load_values = f"{v} = tl.load({names.ptr(v)} + kv_offs, mask=kv_mask, other=0.0)"
    if style == "whole":
        body = [
            *head,
            f"{rn} = tl.arange(0, {bn})",
            *scores,
            "scores = tl.exp(scores - tl.max(scores, axis=1)[:, None])",
            "scores = scores / tl.sum(scores, axis=1)[:, None]",
            load_values,
            f'acc = tl.dot(scores, {v}, input_precision="ieee")',
            f"tl.store({names.ptr(result)} + q_offs, acc, mask=q_mask)",
        ]
        blocks = ("16", f"max(16, triton.next_power_of_2({seq}))")
    else:
        top, total = draw.choice((("m_i", "l_i"), ("top", "total")))
        stop = f"tl.minimum({seq}, (tl.program_id(0) + 1) * {bm})" if is_causal else seq
        body = [
            *head,
            f"{top} = tl.full(({bm},), {low}, dtype=tl.float32)",
            f"{total} = tl.zeros(({bm},), dtype=tl.float32)",
            f"acc = tl.zeros(({bm}, {bd}), dtype=tl.float32)",
            f"for begin in range(0, {stop}, {bn}):",
            f"    {rn} = begin + tl.arange(0, {bn})",
            *(f"    {line}" for line in scores),
            f"    new_top = tl.maximum({top}, tl.max(scores, axis=1))",
            "    p = tl.exp(scores - new_top[:, None])",
            f"    alpha = tl.exp({top} - new_top)",
            f"    {total} = {total} * alpha + tl.sum(p, axis=1)",
            f"    {load_values}",
            f'    acc = acc * alpha[:, None] + tl.dot(p, {v}, input_precision="ieee")',
            f"    {top} = new_top",
            f"tl.store({names.ptr(result)} + q_offs, acc / {total}[:, None], mask=q_mask)",
        ]
        rows, columns = draw.choice(((32, 32), (32, 32), (16, 32), (32, 16), (16, 64)))
        blocks = (str(rows), str(columns))
    tensors = [name for name, _ in draft.tensors]
    device = Device(
        name=draw.choice(("attention", "attn", "flash_attention" if style == "flash" else "sdpa")) + names.suffix,
        arguments=(
            *((names.ptr(name), f"<{name}>") for name in tensors),
            (names.ptr(result), result),
            (seq, seq),
            (dim, dim),
            ("scale", draw.choice((f"{dim} ** -0.5", f"1.0 / {dim}**0.5"))),
        ),
        constants=((bm, blocks[0]), (bn, blocks[1]), (bd, f"max(16, triton.next_power_of_2({dim}))")),
        body=tuple(body),
    )
    host = [f"{seq}, {dim} = <{q}>.shape[-2:]", f"{result} = torch.empty_like(<{q}>)"]
    heads = f"<{q}>.shape[0] * <{q}>.shape[1]" if len(spec.sizes) == 4 else f"<{q}>.shape[0]"
    host.append(device.launch(f"(triton.cdiv({seq}, {blocks[0]}), {heads})"))
    return make_kernel([device], host, draft.tensors, result, f"attention-{style}")
