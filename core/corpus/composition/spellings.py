"""How people write what PyTorch has several ways to write: products with vectors, distances of rows, scans."""

from __future__ import annotations

from collections.abc import Sequence

from ..builder.draw import Draw
from .program import Node

MATRIX_VECTORS: dict[tuple[int, int, int], tuple[str, ...]] = {
    (2, 1, 1): (
        "{a} @ {v}",
        "{a} @ {v}",
        "torch.mv({a}, {v})",
        "torch.mv({a}, {v})",
        "({a} * {v}).sum(dim={d})",
        "torch.sum({a} * {v}, dim={d})",
        'torch.einsum("ij,j->i", {a}, {v})',
        "F.linear({v}, {a})",
        "torch.matmul({a}, {v}.unsqueeze(1)).squeeze(1)",
        "({a} @ {v}[:, None]).squeeze(-1)",
    ),
    (2, 1, 2): ("{a} @ {v}", "torch.matmul({a}, {v})", "torch.mm({a}, {v})", 'torch.einsum("ij,jk->ik", {a}, {v})'),
    (2, 0, 1): (
        "{v} @ {a}",
        "torch.matmul({v}, {a})",
        "{a}.T @ {v}",
        "torch.mv({a}.t(), {v})",
        'torch.einsum("i,ij->j", {v}, {a})',
        "({v}[:, None] * {a}).sum(dim={d})",
        "torch.sum({a} * {v}.unsqueeze(1), dim={d})",
    ),
    (2, 0, 2): ("{v} @ {a}", "torch.matmul({v}, {a})", "torch.mm({v}, {a})"),
    (3, 2, 2): (
        "torch.bmm({a}, {v}.unsqueeze(-1)).squeeze(-1)",
        "torch.matmul({a}, {v}.unsqueeze(2)).squeeze(2)",
        'torch.einsum("bij,bj->bi", {a}, {v})',
        "({a} * {v}.unsqueeze(1)).sum(dim={d})",
        "({a} @ {v}[..., None])[..., 0]",
        "torch.sum({a} * {v}[:, None, :], dim={d})",
    ),
    (3, 2, 1): (
        "{a} @ {v}",
        "torch.matmul({a}, {v})",
        'torch.einsum("bij,j->bi", {a}, {v})',
        "({a} * {v}).sum(dim={d})",
    ),
}
"""Products of matrices and vectors, by the rank of the first, the dimension summed, and the rank of the second."""
PAIRS: dict[str, tuple[str, ...]] = {
    "squared_distance": (
        "torch.sum(({x} - {v}) ** 2, dim={d})",
        "({x} - {v}).pow(2).sum(dim={d})",
        "torch.sum(torch.square({x} - {v}), dim={d})",
    ),
    "l2_distance": (
        "torch.norm({x} - {v}, p=2, dim={d})",
        "({x} - {v}).norm(dim={d})",
        "torch.sqrt(torch.sum(({x} - {v}) ** 2, dim={d}))",
        "({x} - {v}).pow(2).sum(dim={d}).sqrt()",
    ),
    "l1_distance": ("torch.sum(torch.abs({x} - {v}), dim={d})", "({x} - {v}).abs().sum(dim={d})"),
    "cosine": ("F.cosine_similarity({x}, {v}, dim={d})",),
}
"""Distances and similarities of rows."""
_EXCLUSIVE = (
    "{f}({x}, dim={d}) - {x}",
    "torch.cat([torch.{u}_like({x}.narrow({d}, 0, 1)), {f}({x}, dim={d}).narrow({d}, 0, {x}.size({d}) - 1)], dim={d})",
    "x = torch.cat([torch.{u}_like({x}.narrow({d}, 0, 1)), {x}.narrow({d}, 0, {x}.size({d}) - 1)], dim={d})"
    "; {f}(x, dim={d})",
    "{f}(F.pad({x}, ({p}1, 0){o}), dim={d}).narrow({d}, 0, {x}.size({d}))",
    "x = F.pad({x}.narrow({d}, 0, {x}.size({d}) - 1), ({p}1, 0){o}); {f}(x, dim={d})",
    "F.pad({f}({x}, dim={d})[{i}:-1], ({p}1, 0){o})",
    "y = torch.{u}_like({x}); y[{i}1:] = {f}({x}, dim={d})[{i}:-1]; y",
)
"""Scans that leave out the element where they are, the first of sums alone."""
_AFTER = (
    "torch.flip({f}(torch.flip({x}, [{d}]), dim={d}), [{d}]) - {x}",
    "torch.sum({x}, dim={d}, keepdim=True) - {f}({x}, dim={d})",
)


def write_scan(node: Node, names: Sequence[str], rank: int, dim: str, draw: Draw) -> list[str]:
    """Write a scan of a tensor of this rank: statements that come before, and last the expression."""
    x, is_product = names[0], bool(node.option("is_product"))
    function = "torch.cumprod" if is_product else "torch.cumsum"
    match node.option("kind"):
        case "reverse":
            return [f"torch.flip({function}(torch.flip({x}, [{dim}]), dim={dim}), [{dim}])"]
        case "exclusive" | "reverse_exclusive" as kind:
            at, unit = node.dims[0], "ones" if is_product else "zeros"
            forms = _AFTER if kind != "exclusive" else _EXCLUSIVE[1:] if is_product else _EXCLUSIVE
            others = {"p": "0, 0, " * (rank - 1 - at), "i": ":, " * at, "o": ", value=1.0" if is_product else ""}
            return draw.choice(forms).format(x=x, f=function, d=dim, u=unit, **others).split("; ")
        case "masked":
            kept = f"torch.where({names[1]}, {x}, 1.0)" if is_product else f"{x} * {names[1]}"
            return [f"{function}({kept}, dim={dim})"]
        case _:
            return [f"{function}({x}, dim={dim})"]
