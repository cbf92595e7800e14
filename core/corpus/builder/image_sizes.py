"""Sizes and names of batches of channels: (N, C), (N, C, L), (N, C, H, W) and (N, C, D, H, W)."""

from __future__ import annotations

from .draw import Draw
from .spec import Size, draw_size

MAX_ELEMENTS = 1_000_000

DIMENSIONS: dict[int, tuple[tuple[str, ...], ...]] = {
    2: (("N", "C"), ("BATCH", "CHANNELS"), ("batch_size", "num_features"), ("B", "C")),
    3: (("N", "C", "L"), ("BATCH", "CHANNELS", "LENGTH"), ("batch_size", "channels", "length"), ("B", "C", "T")),
    4: (
        ("N", "C", "H", "W"),
        ("BATCH", "CHANNELS", "HEIGHT", "WIDTH"),
        ("batch_size", "channels", "height", "width"),
        ("B", "C", "H", "W"),
    ),
    5: (
        ("N", "C", "D", "H", "W"),
        ("BATCH", "CHANNELS", "DEPTH", "HEIGHT", "WIDTH"),
        ("batch_size", "channels", "depth", "height", "width"),
    ),
}

_SMALL_SIDES = {1: ((17, 29), (37, 61)), 2: ((5, 7), (8, 10)), 3: ((3, 3), (4, 4))}


def draw_image_sizes(draw: Draw, rank: int, multiple: int = 1, sample_elements: int = MAX_ELEMENTS) -> tuple[Size, ...]:
    """Draw sizes of a batch of channels with `rank` dimensions, and about so many elements a sample at the most.

    The channels are a multiple of `multiple`.
    """
    if rank == 2:
        return (
            draw_size(draw, draw.size(64, 2048), (3, 5, 7), (17, 25), (33, 41)),
            _channels(draw, multiple, 512, 20),
        )
    sides = rank - 2
    batch = draw_size(draw, draw.between(2, 32), (2, 3), (2, 3), (4, 5))
    channels = _channels(draw, multiple, 128, 4)
    budget = max(16, min(MAX_ELEMENTS // batch.declared, sample_elements) // channels.declared)
    least, most = {1: (32, 4096), 2: (8, 96), 3: (4, 24)}[sides]
    side = max(least, min(most, int(budget ** (1 / sides))))
    lengths = [draw.size(least, side) for _ in range(sides)]
    if sides > 1 and draw.chance(0.5):
        lengths = [lengths[0]] * sides
    small, larger = _SMALL_SIDES[sides]
    return (
        batch,
        channels,
        *(draw_size(draw, length, (3, 4, 5) if sides < 3 else (2, 3), small, larger) for length in lengths),
    )


def _channels(draw: Draw, multiple: int, most: int, small: int) -> Size:
    declared = multiple * max(1, draw.size(8, most) // multiple)
    few = max(1, -(-small // multiple))
    return Size(
        declared=max(declared, 2 * multiple),
        tiny=multiple if multiple > 2 else multiple * draw.choice((2, 3)),
        small=multiple * draw.between(few, few + 1),
        larger=multiple * draw.between(few + 2, few + 3),
    )
