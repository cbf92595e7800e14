"""Windows that slide over one to three sides of a batch of channels, and the sizes that they fit.

Widths, strides, padding and dilation are no sizes, so they are written as literals and no profile rewrites them; sizes
are chosen such that the window fits at every profile.
"""

from __future__ import annotations

from math import prod

from attrs import frozen

from .draw import Draw
from .spec import Size, Spec

_NAMES = ("kernel", "stride", "padding", "dilation", "extra")
_WIDTHS = {1: (3, 3, 5, 7, 9, 4, 2), 2: (3, 3, 3, 3, 5, 5, 7, 2), 3: (3, 3, 3, 2)}
_UNEVEN = {2: ((3, 5), (5, 3), (1, 5), (3, 1), (2, 3), (7, 3), (1, 3)), 3: ((1, 3, 3), (3, 1, 1), (2, 3, 3), (3, 3, 2))}
_FEW_WIDTHS = {1: (3, 3, 5, 4, 2, 7), 2: (3, 3, 3, 3, 2), 3: (2, 2, 3)}
_FEW_UNEVEN = {2: ((1, 5), (3, 1), (2, 3), (1, 3), (5, 1)), 3: ((1, 3, 3), (3, 1, 1), (1, 2, 2))}
_SMALL = {1: ((19, 27), (33, 45)), 2: ((7, 9), (11, 13)), 3: ((4, 5), (6, 7))}
_TINY = {1: (5, 7, 9), 2: (4, 5, 6), 3: (3, 3, 4)}
_SIDES = {1: (32, 8192), 2: (12, 224), 3: (6, 48)}


@frozen
class Window:
    """One number a side for each property; `extra` is a transposed convolution's output padding."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    extra: tuple[int, ...] = ()
    is_transposed: bool = False

    @property
    def rank(self) -> int:
        return len(self.kernel)

    @property
    def taps(self) -> int:
        """Return the number of elements under the window."""
        return prod(self.kernel)

    @property
    def options(self) -> tuple[tuple[str, str | int | float], ...]:
        """Return the window as options of a Spec."""
        named = (self.kernel, self.stride, self.padding, self.dilation, self.extra)
        return tuple((name, ",".join(map(str, values))) for name, values in zip(_NAMES, named, strict=True))

    def reach(self, side: int) -> int:
        """Return the number of elements from a window's first to its last."""
        return self.dilation[side] * (self.kernel[side] - 1) + 1

    def least(self, side: int) -> int:
        """Return the shortest side on which a few windows fit."""
        return 2 if self.is_transposed else max(2, self.reach(side) - 2 * self.padding[side] + self.stride[side])

    def length(self, side: int, name: str) -> str:
        """Return the result's length as an expression of the input's."""
        stride, rest = self.stride[side], self.reach(side) - 1 - 2 * self.padding[side]
        if self.is_transposed:
            scaled = f"{name} * {stride}" if stride > 1 else name
            return scaled + _signed(rest + 1 - stride + self.extra[side])
        if stride == 1:
            return name + _signed(-rest)
        return f"({name}{_signed(-rest - 1)}) // {stride} + 1"

    def count(self, side: int, length: int) -> int:
        """Return the result's length."""
        rest = self.reach(side) - 1 - 2 * self.padding[side]
        if self.is_transposed:
            return (length - 1) * self.stride[side] + rest + 1 + self.extra[side]
        return (length - rest - 1) // self.stride[side] + 1

    @property
    def keeps_sides(self) -> bool:
        """Return whether a convolution that pads leaves every side as long as it was."""
        reaches = [2 * padding == self.reach(side) - 1 for side, padding in enumerate(self.padding)]
        return all(reaches) and any(self.padding) and set(self.stride) == {1} and not self.is_transposed

    def keywords(self) -> list[tuple[str, str]]:
        """Return the module's keyword arguments that are not its defaults, without the kernel's size."""
        found = []
        for name, values, default in (
            ("stride", self.stride, 1),
            ("padding", self.padding, 0),
            ("output_padding", self.extra, 0),
            ("dilation", self.dilation, 1),
        ):
            if any(value != default for value in values):
                found.append((name, literal(values)))
        return found

    @property
    def text(self) -> str:
        """Return the window in words."""
        words = {"kernel": "x".join(map(str, self.kernel))} if self.rank > 1 else {"kernel": str(self.kernel[0])}
        words.update({name.replace("_", " "): value for name, value in self.keywords()})
        return ", ".join(f"{name} {value}" for name, value in words.items())


def square_window(rank: int, width: int, stride: int = 1, padding: int = 0) -> Window:
    """Return the window with the same numbers on each side, and no dilation."""
    return Window((width,) * rank, (stride,) * rank, (padding,) * rank, (1,) * rank)


def _signed(number: int) -> str:
    return "" if number == 0 else f" + {number}" if number > 0 else f" - {-number}"


def literal(values: tuple[int, ...]) -> str:
    """Return one number where all sides have the same, else a tuple."""
    return str(values[0]) if len(set(values)) == 1 else f"({', '.join(map(str, values))})"


def read_window(spec: Spec) -> Window:
    """Return the window that a spec's options hold."""
    options = dict(spec.options)
    values = {name: tuple(int(part) for part in str(options[name]).split(",") if part) for name in _NAMES}
    return Window(is_transposed=bool(values["extra"]), **values)


def draw_rank(draw: Draw) -> int:
    """Draw the number of sides: mostly two."""
    return draw.choice((1, 2, 2, 2, 3))


def draw_window(draw: Draw, rank: int, is_transposed: bool = False, is_direct: bool = False) -> Window:
    """Draw a convolution's window; one that is summed tap by tap has few of them."""
    kernel = (draw.choice((_FEW_WIDTHS if is_direct else _WIDTHS)[rank]),) * rank
    if rank > 1 and draw.chance(0.25):
        kernel = draw.choice((_FEW_UNEVEN if is_direct else _UNEVEN)[rank])
    dilation = draw_each_side(draw, rank, (1, 1, 1, 1, 1, 1, 2, 2, 3) if rank < 3 else (1, 1, 1, 1, 2), 0.1)
    # results of a transposed convolution grow by the stride on every side
    spread = (2, 2, 1, 1, 1 if rank == 3 else 3)
    stride = draw_each_side(draw, rank, spread if is_transposed else (1, 1, 1, 2, 2, 3), 0.1)
    padding = draw_padding(draw, kernel, dilation)
    extra: tuple[int, ...] = ()
    if is_transposed:
        is_longer = draw.chance(0.3)
        extra = tuple(int(is_longer and step > 1) for step in stride)
    return Window(kernel, stride, padding, dilation, extra, is_transposed)


def draw_padding(
    draw: Draw, kernel: tuple[int, ...], dilation: tuple[int, ...], two_share: float = 0.0
) -> tuple[int, ...]:
    """Draw a convolution's padding: none, half the window, or one at most; of these with `two_share` up to two."""
    spans = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
    way = draw.below(3)
    if way < 2:
        return tuple(way * (span // 2) for span in spans)
    if two_share and not draw.chance(1 - two_share):
        return tuple(min(2, span // 2) for span in spans)
    return (min(1, min(spans) // 2),) * len(kernel)


_POOLS = {1: (2, 3, 4, 5, 8), 2: (2, 2, 3, 3, 4, 5), 3: (2, 2, 3)}
_UNEVEN_POOLS = {2: ((2, 3), (3, 2), (1, 4)), 3: ((1, 2, 2), (2, 3, 3))}


def draw_pooling_window(
    draw: Draw,
    rank: int,
    dilations: tuple[int, ...] = (),
    widths: dict[int, tuple[int, ...]] = _POOLS,
    uneven: float = 0.2,
) -> Window:
    """Draw a pooling's window: its stride is mostly its width, its padding at most half of it."""
    kernel = (draw.choice(widths[rank]),) * rank
    if rank > 1 and draw.chance(uneven):
        kernel = draw.choice(_UNEVEN_POOLS[rank])
    stride = kernel if draw.chance(0.5) else draw_each_side(draw, rank, (1, 2, 2, 3), 0.1)
    padding = tuple(width // 2 for width in kernel) if draw.chance(0.4) else (0,) * rank
    dilation = draw_each_side(draw, rank, dilations, 0.0) if dilations else (1,) * rank
    return Window(kernel, stride, padding, dilation)


def draw_each_side(draw: Draw, rank: int, options: tuple[int, ...], uneven: float) -> tuple[int, ...]:
    """Draw a number for each side: one for all, or with probability `uneven` one for each."""
    if rank > 1 and draw.chance(uneven):
        return tuple(draw.choice(options) for _ in range(rank))
    return (draw.choice(options),) * rank


def draw_sides(draw: Draw, window: Window, most: float) -> tuple[Size, ...]:
    """Draw the input's sides: at most about `most` elements of a result's channel."""
    rank = window.rank
    low, high = _SIDES[rank]
    steps = (prod(window.stride) if window.is_transposed else min(2, prod(window.stride))) ** (1 / rank)
    wanted = most ** (1 / rank) * (1 / steps if window.is_transposed else steps)
    high = max(low, min(high, int(wanted)))
    declared = [draw.size(max(low, high // 3), high) for _ in range(rank)]
    if draw.chance(0.6):
        declared = declared[:1] * rank
    shift = max(window.least(side) for side in range(rank))
    sides = []
    for side, length in enumerate(declared):
        small, larger = _SMALL[rank]
        # a transposed convolution's results are longer than its input
        if window.is_transposed:
            small, larger = (max(3, small[0] // 2 + 1), small[1] // 2 + 1), (larger[0] // 2 + 1, larger[1] // 2 + 2)
        more = max(0, shift - small[0])
        sides.append(
            Size(
                declared=max(length, window.least(side) + 3),
                tiny=max(draw.choice(_TINY[rank]), window.least(side)),
                small=draw.between(*small) + more,
                larger=draw.between(*larger) + more,
            )
        )
    return tuple(sides)


def draw_channels(draw: Draw, low: int, high: int, multiple: int = 1, few: int = 3) -> Size:
    """Draw a number of channels, a multiple of `multiple`; about `few` of them in the small profile."""
    least = max(1, -(-few // multiple))
    return Size(
        declared=multiple * max(2, draw.size(low, high) // multiple),
        tiny=multiple * draw.between(1, 2) if multiple > 1 else draw.between(2, 5),
        small=multiple * draw.between(least, least + 1),
        larger=multiple * draw.between(least + 2, least + 3),
    )


def draw_batch(draw: Draw) -> Size:
    """Draw a number of samples."""
    return Size(declared=draw.between(2, 16), tiny=draw.choice((2, 2, 3)), small=2, larger=draw.between(3, 4))
