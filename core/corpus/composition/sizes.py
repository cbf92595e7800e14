"""Sizes as benchmarks have them: large batches, wide layers and images, within what a GPU's test can afford.

The small profiles are for the interpreter: a few hundred elements, no multiple of a block.
"""

from __future__ import annotations

from math import prod

from ..builder.draw import Draw
from ..builder.spec import Size, draw_size
from ..builder.windows import Window, draw_each_side, draw_padding, draw_pooling_window, square_window

MOST_ELEMENTS = 1 << 24
"""Of a tensor: 64 MB of float32, and of a transposed convolution's result somewhat more."""
MOST_OPERATIONS = 1 << 35
_SIDES = {1: (256, 65536), 2: (16, 512), 3: (8, 64)}
_TINY = {1: (9, 11, 13), 2: (7, 8, 9), 3: (5, 6)}
_SMALL = {1: (17, 23), 2: (9, 10), 3: (6, 6)}
_LARGER = {1: (27, 35), 2: (12, 13), 3: (7, 8)}


def draw_batch(draw: Draw) -> Size:
    """Draw a batch of images."""
    declared = draw.choice((16, 16, 32, 32, 64, 64, 128, 8, 24, 10, 4))
    return Size(declared=declared, tiny=draw.choice((2, 3)), small=2, larger=3)


def draw_channels(draw: Draw, low: int, high: int, multiple: int = 1) -> Size:
    """Draw a number of channels, a multiple of `multiple`."""
    most = max(1, high // multiple)
    declared = multiple * max(1 if multiple > 1 else 2, draw.size(max(1, min(low // multiple, most)), most))
    few = 2 if multiple > 2 else max(1, -(-4 // multiple))
    return Size(
        declared=declared,
        tiny=multiple * draw.between(1, 2)
        if multiple > 2
        else multiple * draw.between(max(1, 3 // multiple), 4 // multiple),
        small=multiple * draw.between(few, few + 1 if multiple < 4 else few),
        larger=multiple * (few + 2 if multiple < 4 else few + 1),
    )


def draw_colors(draw: Draw) -> Size:
    """Draw the channels of a first layer."""
    return Size(declared=draw.choice((3, 3, 3, 1, 4)), tiny=2, small=3, larger=4)


def draw_sides(draw: Draw, rank: int, most: float, least: int = 0, grows: bool = False) -> tuple[Size, ...]:
    """Draw an image's sides: about `most` elements together, each of `least` at least in every profile.

    Those that a transposed convolution grows are half as long in the small profiles.
    """
    part = 2 if grows else 1
    low, high = _SIDES[rank]
    high = max(low, min(high, int(most ** (1 / rank))))
    lengths = [draw.size(max(low, high // 3), high) for _ in range(rank)]
    if draw.chance(0.6):
        lengths = lengths[:1] * rank
    more = max(0, least - _SMALL[rank][0] // part)
    return tuple(
        Size(
            declared=max(length, least),
            tiny=max(draw.choice(_TINY[rank]) // part, least),
            small=draw.between(*_SMALL[rank]) // part + more,
            larger=draw.between(*_LARGER[rank]) // part + more + 1,
        )
        for length in lengths
    )


def draw_rows(draw: Draw, low: int = 64, high: int = 16384) -> Size:
    """Draw a number of rows."""
    return draw_size(draw, draw.size(low, high), (3, 5, 7), (9, 13), (17, 23))


def draw_features(draw: Draw, low: int = 64, high: int = 8192) -> Size:
    """Draw a number of features."""
    return draw_size(draw, draw.size(low, high), (5, 7, 9, 11), (19, 27), (35, 45))


def draw_sequence(draw: Draw, low: int = 32, high: int = 2048) -> Size:
    """Draw the length of a sequence."""
    return draw_size(draw, draw.size(low, high), (3, 5), (7, 9), (11, 13))


_WIDTHS = {1: (3, 3, 5, 7, 4, 11), 2: (3, 3, 3, 3, 5, 5, 7, 4), 3: (3, 3, 3, 2)}
_UNEVEN = {
    2: ((3, 5), (5, 3), (1, 7), (3, 1), (2, 5), (7, 3), (1, 3), (5, 7)),
    3: ((1, 3, 3), (3, 1, 1), (2, 3, 3), (3, 3, 5)),
}


def draw_window(draw: Draw, rank: int, is_transposed: bool = False, is_plain: bool = False) -> Window:
    """Draw a convolution's window; a plain one has neither dilation nor numbers that differ by side."""
    uneven = 0.0 if is_plain else 0.25
    kernel = (draw.choice(_WIDTHS[rank]),) * rank
    if rank > 1 and draw.chance(uneven):
        kernel = draw.choice(_UNEVEN[rank])
    has_holes = not is_plain and not (is_transposed and rank == 3) and draw.chance(0.3)
    dilation = (1,) * rank if not has_holes else draw_each_side(draw, rank, (2, 2, 3), 0.3)
    if is_transposed:
        stride = draw_each_side(draw, rank, (2, 2, 1, 1, 3 if rank < 3 else 2), uneven)
    else:
        stride = draw_each_side(draw, rank, (1, 1, 1, 1, 2, 2, 3), 0.4 * uneven)
    padding = draw_padding(draw, kernel, dilation, 0.3)
    extra: tuple[int, ...] = ()
    if is_transposed:
        is_longer = draw.chance(0.35)
        extra = tuple(draw.between(1, step - 1) if is_longer and step > 1 else 0 for step in stride)
    return Window(kernel, stride, padding, dilation, extra, is_transposed)


_POOLS = {1: (2, 3, 4, 5, 8), 2: (2, 2, 2, 3, 3, 4), 3: (2, 2, 3)}


def draw_pool_window(draw: Draw, rank: int, has_dilation: bool = False, is_plain: bool = False) -> Window:
    """Draw a pooling's window."""
    if is_plain:
        draw.choice(_POOLS[rank])  # so that what is drawn after it stays as it was
        return square_window(rank, 2, 2)
    return draw_pooling_window(draw, rank, (1, 1, 2, 3) if has_dilation else (), _POOLS, 0.15)


def least_side(window: Window) -> int:
    """Return the shortest side on which two windows fit."""
    return max(window.least(side) for side in range(window.rank))


def places_for(window: Window, batch: int, channels: int, filters: int, groups: int = 1) -> float:
    """Return the elements of one channel of the input such that neither memory nor operations are too many."""
    steps = prod(window.stride)
    grown = 1 / steps if window.is_transposed else steps
    by_input = MOST_ELEMENTS / (batch * channels)
    by_result = MOST_ELEMENTS / (batch * filters) * grown
    per_place = 2.0 * window.taps * channels * filters / groups
    by_work = MOST_OPERATIONS / (batch * per_place) * grown
    return max(1.0, min(by_input, by_result, by_work))
