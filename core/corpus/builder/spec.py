"""Specifies a task before anything is worded: its identity, and the sizes of its profiles.

The identity leaves out names and styles, so two renderings that ask for the same computation count as one task.
`DIMENSIONS` names those of batches of channels: (N, C), (N, C, L), (N, C, H, W) and (N, C, D, H, W).
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from .draw import Draw
from .operations import Applied


@frozen(kw_only=True)
class Size:
    """One dimension: the declared size, and its size in the other three profiles."""

    declared: int
    tiny: int
    small: int
    larger: int


@frozen(kw_only=True)
class Spec:
    """A task without its wording: `producer` (a function, a reduction, a product), then `chain`.

    Its level and its family are those of its row in the registry.
    """

    level: int = 0
    family: str = ""
    producer: str
    sizes: tuple[Size, ...]
    chain: tuple[Applied, ...] = ()
    dtypes: tuple[str, ...] = ("float32",)
    options: tuple[tuple[str, str | int | float], ...] = ()

    @property
    def identity(self) -> tuple[object, ...]:
        """Return what distinguishes the task from others, whatever its wording."""
        sizes = tuple(size.declared for size in self.sizes)
        chain = tuple(applied.identity for applied in self.chain)
        return (self.level, self.family, self.producer, sizes, chain, self.dtypes, self.options)

    @property
    def composition(self) -> tuple[object, ...]:
        """Return what a split keeps together: at Level 2 the chain of operations, whatever its numbers and sizes."""
        if self.level == 1:
            return self.identity
        return (self.family, self.producer, *(applied.operation.name for applied in self.chain))

    def option(self, name: str, default: str | int | float = 0) -> str | int | float:
        """Return the named option."""
        return dict(self.options).get(name, default)

    @property
    def cast(self) -> str:
        """Return the conversion of a load to float32, where the contract lists a narrower dtype."""
        return ".to(tl.float32)" if len(self.dtypes) > 1 else ""


def draw_dtypes(draw: Draw) -> tuple[str, ...]:
    """Draw the contract's dtypes: float32, and for a quarter of the tasks float16 too."""
    return ("float32", "float16") if draw.chance(0.25) else ("float32",)


_TINY = (3, 5, 6, 7, 9)
_MAX_ELEMENTS = 4_000_000


def draw_size(draw: Draw, declared: int, tiny: Sequence[int], small: tuple[int, int], larger: tuple[int, int]) -> Size:
    """Draw a dimension's other sizes: one of `tiny`, and from the ranges `small` and `larger`, ends included."""
    return Size(declared=declared, tiny=draw.choice(tiny), small=draw.between(*small), larger=draw.between(*larger))


def draw_pointwise_sizes(draw: Draw) -> tuple[Size, ...]:
    """Draw one to three dimensions, at most four million elements; small has 700 elements or so."""
    rank = draw.choice((1, 2, 2, 2, 3))
    if rank == 1:
        declared = draw.size(4096, _MAX_ELEMENTS)
        return (draw_size(draw, declared, _TINY, (500, 800), (2100, 3300)),)
    if rank == 2:
        columns = draw.size(64, 8192)
        rows = draw.size(16, max(32, min(8192, _MAX_ELEMENTS // columns)))
        return (draw_size(draw, rows, _TINY, (15, 21), (33, 45)), draw_size(draw, columns, _TINY, (27, 37), (57, 77)))
    columns = draw.size(32, 1024)
    middle = draw.size(16, max(32, min(1024, _MAX_ELEMENTS // columns // 4)))
    batch = draw.between(2, max(2, min(64, _MAX_ELEMENTS // columns // middle)))
    return (
        draw_size(draw, batch, _TINY, (3, 5), (6, 8)),
        draw_size(draw, middle, _TINY, (9, 12), (15, 19)),
        draw_size(draw, columns, _TINY, (10, 15), (18, 25)),
    )


def draw_row_sizes(draw: Draw) -> tuple[Size, ...]:
    """Draw rows and columns, a quarter of the time with a batch before them; small rows have 150 columns or so."""
    columns = draw.size(256, 8192)
    column = draw_size(draw, columns, (5, 7, 9, 11, 13), (130, 190), (1030, 1200))
    if draw.chance(0.75):
        rows = draw.size(64, min(16384, _MAX_ELEMENTS // columns))
        return (draw_size(draw, rows, _TINY, (7, 11), (12, 15)), column)
    batch = draw.between(2, 32)
    rows = draw.size(16, max(16, min(512, _MAX_ELEMENTS // columns // batch)))
    return (
        Size(declared=batch, tiny=draw.choice((2, 3)), small=2, larger=3),
        Size(declared=rows, tiny=draw.choice((3, 5)), small=draw.between(3, 4), larger=5),
        column,
    )


def draw_product_sizes(draw: Draw) -> tuple[Size, ...]:
    """Draw rows, inner and columns of a matrix product."""
    return (
        draw_size(draw, draw.size(64, 4096), _TINY, (17, 23), (33, 47)),
        draw_size(draw, draw.size(64, 2048), _TINY, (35, 45), (66, 90)),
        draw_size(draw, draw.size(64, 2048), _TINY, (19, 30), (35, 50)),
    )


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
