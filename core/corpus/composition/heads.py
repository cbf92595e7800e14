"""Heads of composed tasks: inputs at drawn sizes, and convolutions, products and norms of them.

Sizes are as benchmarks have them: large batches, wide layers and images, within what a GPU's test can afford. The small
profiles are for the interpreter: a few hundred elements, no multiple of a block.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod

from ..builder.draw import Draw
from ..builder.spec import Size, draw_size
from ..builder.windows import Window, draw_each_side, draw_padding, draw_pooling_window, square_window
from .program import Program, Shape

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


def add_convolution(
    program: Program,
    draw: Draw,
    kind: str,
    rank: int,
    is_plain: bool = False,
    part: float = 1.0,
    lead: Callable[[int], int] = lambda x: x,
) -> int:
    """Add an image and a convolution of it: "standard", "depthwise", "grouped", "pointwise" or "transposed".

    `part` is what the image has of the places that it could have; `lead` adds what comes before the convolution.
    """
    is_transposed = kind.startswith("transposed")
    window = draw_window(draw, rank, is_transposed, is_plain)
    if kind == "pointwise":
        window = square_window(rank, 1)
    groups = draw.choice((2, 2, 3, 4, 4, 8)) if kind.endswith("grouped") else 1
    batch = draw_batch(draw)
    widest = {1: 512, 2: 256, 3: 64}[rank]
    has_bias = draw.chance(0.5)
    if kind == "depthwise":
        channels = draw_channels(draw, 8, 512 if rank < 3 else 64)
        places = places_for(window, batch.declared, channels.declared, channels.declared, channels.declared)
        sides = draw_sides(draw, rank, part * places, least_side(window))
        shape = program.image(batch, channels, sides, "channels")
        return program.convolution(lead(program.input(shape)), shape[1], window, -1, has_bias)
    is_first = groups == 1 and draw.chance(0.2)
    channels = draw_colors(draw) if is_first else draw_channels(draw, 8, widest, groups)
    filters = draw_channels(draw, 8, widest, groups)
    places = places_for(window, batch.declared, channels.declared, filters.declared, groups)
    sides = draw_sides(draw, rank, part * places, least_side(window), is_transposed)
    shape = program.image(batch, channels, sides)
    found = program.dim("out_channels", filters)
    return program.convolution(lead(program.input(shape)), found, window, groups, has_bias)


def draw_tensor_rank(draw: Draw) -> int:
    """Draw a number of dimensions."""
    return draw.choice((2, 2, 2, 3, 3, 4, 4, 5))


def draw_rank(draw: Draw) -> int:
    """Draw the number of an image's sides."""
    return draw.choice((1, 2, 2, 2, 3, 3))


def add_image(
    program: Program,
    draw: Draw,
    rank: Callable[[Draw], int],
    low: int,
    high: int,
    multiple: int = 1,
    most: float = MOST_ELEMENTS,
    window: Window | None = None,
    most_places: float = inf,
    kind: str = "randn",
) -> int:
    """Add an image of `low` to `high` channels and about `most` elements, on whose sides the window fits.

    `rank` draws the number of sides, after batch and channels; a channel has `most_places` elements.
    """
    batch, channels = draw_batch(draw), draw_channels(draw, low, high, multiple)
    places = min(max(64.0, most / (batch.declared * channels.declared)), most_places)
    sides = draw_sides(draw, rank(draw), places, least_side(window) if window else 0)
    return program.input(program.image(batch, channels, sides, "channels"), kind=kind)


def add_tensor(program: Program, draw: Draw, rank: int, kind: str = "randn", most: int = MOST_ELEMENTS) -> int:
    """Add an input of two to five dimensions: rows, sequences or images."""
    if rank == 2:
        columns = draw_features(draw, 256, 65536)
        rows = draw_rows(draw, 64, max(64, min(8192, most // columns.declared)))
        return program.input((program.dim("batch", rows), program.dim("features", columns)), kind=kind)
    if rank == 3:
        batch = draw_batch(draw)
        features = draw_features(draw, 64, 2048)
        length = draw_sequence(draw, 32, max(32, min(4096, most // batch.declared // features.declared)))
        dims = (program.dim("batch", batch), program.dim("sequence", length), program.dim("features", features))
        return program.input(dims, kind=kind)
    return add_image(program, draw, lambda _: rank - 2, 8, 256, most=most, kind=kind)


def add_norm(program: Program, draw: Draw, x: int, kind: str, groups: int = 1) -> int:
    """Add a normalisation of the tensor."""
    rank = len(program.shape(x))
    eps = draw.choice((1e-5, 1e-5, 1e-5, 1e-6, 1e-3))
    affine = int(draw.chance(0.3 if kind == "instance" else 0.8))
    match kind:
        case "batch":
            return program.norm(x, kind, eps=eps, affine=affine, running=int(draw.chance(0.15)))
        case "group":
            return program.norm(x, kind, eps=eps, affine=affine, groups=groups)
        case "layer":
            dims = str(rank - 1) if rank < 4 else ",".join(map(str, range(draw.choice((1, 1, rank - 1)), rank)))
            return program.norm(x, kind, eps=eps, affine=affine, dims=dims)
        case "rms":
            return program.norm(x, kind, eps=eps, affine=affine, dims=str(rank - 1 if rank < 4 else 1))
        case _:
            return program.norm(x, kind, eps=eps, affine=affine)


_PRODUCT_SHAPES = (
    ((512, 4096), (512, 4096), (512, 4096)),
    ((8192, 32768), (16, 64), (8192, 16384)),
    ((16, 512), (16384, 131072), (16, 512)),
    ((16384, 65536), (32, 512), (16, 128)),
    ((16, 64), (1024, 8192), (4096, 16384)),
    ((200, 5000), (100, 3000), (60, 4000)),
)


def add_matmul(program: Program, draw: Draw, kind: str, scaled: float = 0.4) -> int:
    """Add two inputs and their product, the first divided by the root of the inner size with that probability."""
    rows, inner, columns = (draw.size(*bounds) for bounds in draw.choice(_PRODUCT_SHAPES))
    if draw.chance(0.3):
        rows, inner, columns = (max(16, size - draw.between(1, 7)) for size in (rows, inner, columns))
    while rows * columns > MOST_ELEMENTS or 2 * rows * inner * columns > MOST_OPERATIONS:
        rows, columns = max(16, rows // 2), max(16, columns // 2)
        inner = inner if rows * columns < 1 << 20 else max(16, inner // 2)
    m = draw_size(draw, rows, (3, 5, 7), (17, 23), (33, 47))
    k = draw_size(draw, inner, (5, 7, 9), (35, 45), (66, 90))
    n = draw_size(draw, columns, (3, 5, 7), (19, 30), (35, 50))
    layout = draw.choice(("nn", "nn", "nn", "nt", "tn", "tt"))
    if kind == "plain":
        dims = program.dim("M", m), program.dim("K", k), program.dim("N", n)
        lead: Shape = ()
    else:
        m = draw_size(draw, min(rows, draw.size(32, 1024)), (3, 5), (9, 13), (17, 21))
        k = draw_size(draw, min(inner, 2048), (5, 7), (19, 27), (35, 41))
        n = draw_size(draw, min(columns, 1024), (3, 5), (9, 15), (19, 23))
        batch = draw_batch(draw)
        lead = (program.dim("batch", batch),)
        if kind in ("heads", "tensor4"):
            heads = Size(declared=draw.choice((4, 8, 12, 16)), tiny=2, small=2, larger=3)
            lead = (*lead, program.dim("heads", heads))
            m = draw_size(draw, min(m.declared, 512), (3, 5), (7, 9), (11, 13))
        dims = program.dim("M", m), program.dim("K", k), program.dim("N", n)
        if kind.startswith("tensor"):
            layout = draw.choice(("nn", "nn", "nt"))
    left = (*lead, dims[0], dims[1]) if layout[0] == "n" else (*lead, dims[1], dims[0])
    right: Shape = (dims[1], dims[2]) if layout[1] == "n" else (dims[2], dims[1])
    if not kind.startswith("tensor"):
        right = (*lead, *right)
    a = program.input(left, draw.choice(("a", "a", "x")), scale=dims[1] if draw.chance(scaled) else None)
    b = program.input(right, draw.choice(("b", "b", "w")))
    return program.matmul(a, b, layout, name="x", is_shared=int(kind.startswith("tensor")))
