"""The reference side of layers whose weights are the model's own parameters: `F.linear(x, self.weight, self.bias)`."""

from __future__ import annotations

from ..builder.draw import Draw
from .program import Node

OWNED = 0.1
"""Of the tasks with a layer that may own weights."""
_FILLING = ("nn.init.xavier_uniform_(self.weight)", "nn.init.kaiming_uniform_(self.weight)")


def may_own_weights(node: Node) -> bool:
    """Return whether a layer is a function of weights, a stride and a padding that are the same on all sides."""
    window = node.window
    if node.op != "conv" or window is None:
        return node.op == "linear"
    is_plain = not window.is_transposed and node.number("groups") == 1 and set(window.dilation) == {1}
    return is_plain and len(set(window.stride)) == 1 and len(set(window.padding)) == 1


def write_own_layer(node: Node, x: str, inner: str, outer: str, draw: Draw) -> tuple[str, list[str], str]:
    """Return the parameter that `self.weight` is, the constructor's lines after it, and the function of both."""
    window = node.window
    sides = "".join(f", {length}" for length in window.kernel) if window is not None else ""
    is_filled = draw.chance(0.4)
    scale = draw.choice(("0.02", "0.05") if window is None else ("0.05", "0.1"))
    value = f"torch.empty({outer}, {inner}{sides})" if is_filled else f"torch.randn({outer}, {inner}{sides}) * {scale}"
    given, lines = f"{x}, self.weight", list[str]()
    if node.option("bias"):
        lines.append(f"self.bias = nn.Parameter(torch.randn({outer}))")
        given += ", self.bias"
    if is_filled:
        lines.append(draw.choice(_FILLING))
    if window is None:
        return f"nn.Parameter({value})", lines, f"F.linear({given})"
    numbers = f"stride={window.stride[0]}, padding={window.padding[0]}"
    return f"nn.Parameter({value})", lines, f"F.conv{window.rank}d({given}, {numbers})"
