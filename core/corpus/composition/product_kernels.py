"""Linear layers, matrix products and attention, each tile by tile."""

from __future__ import annotations

from .launches import Epilogue, Function, Place

_TILE = [
    "rm = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]",
    "rn = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]",
    "acc = tl.zeros((BM, BN), dtype=tl.float32)",
    "for k in range(0, K, BK):",
    "    rk = k + tl.arange(0, BK)",
]
_CONSTANTS = (("BM", "64"), ("BN", "64"), ("BK", "32"))
_SIZES = (("M", "M"), ("N", "N"), ("K", "K"))
_GRID = "triton.cdiv(M, 64), triton.cdiv(N, 64)"


def write_linear(argument: str, module: str, rank: int, epilogue: Epilogue) -> Function:
    """Write a linear layer over the last dimension of a tensor of `rank` dimensions, with a bias or without."""
    inner = [
        "x = tl.load(x_ptr + rm * K + rk[None, :], mask=(rm < M) & (rk[None, :] < K), other=0.0)",
        "w = tl.load(weight_ptr + rn * K + rk[:, None], mask=(rk[:, None] < K) & (rn < N), other=0.0)",
        'acc += tl.dot(x, w, input_precision="ieee")',
    ]
    bias = ["if bias_ptr is not None:", "    acc += tl.load(bias_ptr + rn, mask=rn < N, other=0.0)"]
    return Function(
        name="linear",
        tensors=(("x", argument), *epilogue.parameters),
        module=module,
        held=("weight", "bias"),
        host=("N, K = layer.weight.shape", "M = x.numel() // K"),
        shape="(*x.shape[:-1], N)",
        grid=f"({_GRID})",
        body=_write_tile(inner, [*bias, "offs = rm * N + rn"], rank, epilogue),
        sizes=(*_SIZES, *epilogue.sizes()),
        constants=_CONSTANTS,
    )


def write_matmul(arguments: tuple[str, str], rank: int, epilogue: Epilogue) -> Function:
    """Write a product of `a` and `b` of any layout and any leading dimensions.

    Their strides say how they lie, so that a transposed one is given as the view that it is. A `b` of two dimensions
    is multiplied by all leading dimensions of `a`, of `rank` dimensions; else both have the same leading ones.
    """
    inner = [
        "a_offs = batch * AB + rm * AM + rk[None, :] * AK",
        "a = tl.load(a_ptr + a_offs, mask=(rm < M) & (rk[None, :] < K), other=0.0)",
        "b_offs = batch * BB + rk[:, None] * BR + rn * BC",
        "b = tl.load(b_ptr + b_offs, mask=(rk[:, None] < K) & (rn < N), other=0.0)",
        'acc += tl.dot(a, b, input_precision="ieee")',
    ]
    body = _write_tile(inner, ["offs = batch * M * N + rm * N + rn"], rank, epilogue)
    strides = {"AB": "AB", "AM": "a.stride(-2)", "AK": "a.stride(-1)"}
    strides |= {"BB": "BB", "BR": "b.stride(-2)", "BC": "b.stride(-1)"}
    return Function(
        name="matmul",
        tensors=(("a", arguments[0]), ("b", arguments[1]), *epilogue.parameters),
        host=(
            "(M, K), N = a.shape[-2:], b.shape[-1]",
            "AB = a.stride(-3) if a.dim() > 2 else 0",
            "BB = b.stride(-3) if b.dim() > 2 else 0",
        ),
        shape="(*a.shape[:-2], M, N)",
        grid=f"({_GRID}, a.shape[:-2].numel())",
        body=("batch = tl.program_id(2)", *body),
        sizes=(*_SIZES, *strides.items(), *epilogue.sizes()),
        constants=_CONSTANTS,
    )


def _write_tile(inner: list[str], last: list[str], rank: int, epilogue: Epilogue) -> tuple[str, ...]:
    """Write a tile's loop with the lines `inner`, then `last`, the steps and the store."""
    return (
        *_TILE,
        *("    " + line for line in inner),
        *last,
        "mask = (rm < M) & (rn < N)",
        *epilogue.lines(Place(indices=((rank - 1, "rn", "rn < N"),))),
        "tl.store(out_ptr + offs, acc, mask=mask)",
    )


def write_attention(arguments: tuple[str, ...], is_causal: bool, num_heads: int, mask: str = "") -> Function:
    """Write scaled dot-product attention: of (batch, heads, length, width), or of layers' (batch, length, features).

    `num_heads` is given where the heads lie beside one another in the features.
    """
    beside = num_heads > 0
    row, first = "D", ("pid * S * D", "pid * T * D")
    if beside:
        row, first = "(H * D)", ("b * S * H * D + h * D", "b * T * H * D + h * D")
    body = ["pid = tl.program_id(1)"]
    body += ["b = pid // H", "h = pid % H"] if beside else []
    body += [
        "rm = tl.program_id(0) * BM + tl.arange(0, BM)",
        "rd = tl.arange(0, BD)",
        f"q_offs = {first[0]} + rm[:, None] * {row} + rd[None, :]",
        "q_mask = (rm[:, None] < S) & (rd[None, :] < D)",
        "q = tl.load(q_ptr + q_offs, mask=q_mask, other=0.0)",
        'top = tl.full((BM,), -float("inf"), dtype=tl.float32)',
        "total = tl.zeros((BM,), dtype=tl.float32)",
        "acc = tl.zeros((BM, BD), dtype=tl.float32)",
        "for start in range(0, T, BN):",
        "    rn = start + tl.arange(0, BN)",
        f"    kv_offs = {first[1]} + rn[:, None] * {row} + rd[None, :]",
        "    kv_mask = (rn[:, None] < T) & (rd[None, :] < D)",
        "    k = tl.load(k_ptr + kv_offs, mask=kv_mask, other=0.0)",
        '    s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale',
    ]
    if mask:
        body.append(
            "    s += tl.load(mask_ptr + rm[:, None] * T + rn[None, :], "
            "mask=(rm[:, None] < S) & (rn[None, :] < T), other=0.0)"
        )
    seen = "(rn[None, :] < T)" + (" & (rn[None, :] <= rm[:, None])" if is_causal else "")
    body += [
        f'    s = tl.where({seen}, s, -float("inf"))',
        "    new_top = tl.maximum(top, tl.max(s, axis=1))",
        "    p = tl.exp(s - new_top[:, None])",
        "    old = tl.exp(top - new_top)",
        "    total = total * old + tl.sum(p, axis=1)",
        "    v = tl.load(v_ptr + kv_offs, mask=kv_mask, other=0.0)",
        '    acc = acc * old[:, None] + tl.dot(p, v, input_precision="ieee")',
        "    top = new_top",
        "tl.store(out_ptr + q_offs, acc / total[:, None], mask=q_mask)",
    ]
    tensors = list(zip("qkv", arguments, strict=False)) + ([("mask", mask)] if mask else [])
    if beside:
        host = ["B, S, E = q.shape", "T = k.shape[1]", "D = E // heads"]
        sizes, grid = [("H", "heads")], "(triton.cdiv(S, 32), B * heads)"
    else:
        host = ["S, D = q.shape[-2:]", "T = k.shape[-2]"]
        sizes, grid = [], "(triton.cdiv(S, 32), q.shape[0] * q.shape[1])"
    return Function(
        name="attention",
        tensors=tuple(tensors),
        numbers=(("heads", str(num_heads)),) if beside else (),
        host=tuple(host),
        shape="q.shape",
        grid=grid,
        sizes=(*sizes, ("S", "S"), ("T", "T"), ("D", "D"), ("scale", "D ** -0.5")),
        constants=(("BM", "32"), ("BN", "32"), ("BD", "max(16, triton.next_power_of_2(D))")),
        body=tuple(body),
    )
