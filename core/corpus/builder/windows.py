"""Windows that slide over one to three sides of a batch of channels, and how a kernel finds the elements under them.

Widths, strides, padding and dilation are no sizes, so they are written as literals and no profile rewrites them; sizes
are chosen such that the window fits at every profile. In a kernel they are either written out, where what multiplies by
one or adds nothing is left out, or are constants of it (`KH`, `STRIDE`, `PAD`), as people write both.
"""

from __future__ import annotations

from collections.abc import Sequence
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


_AXES = {1: (("L",), ("W",)), 2: (("H", "W"),), 3: (("D", "H", "W"),)}
LETTERS = {"L": "l", "D": "z", "H": "h", "W": "w"}
_SHARED = {"stride": "STRIDE", "padding": "PAD", "dilation": "DIL"}
_SHORT = {"kernel": "K", "stride": "S", "padding": "P", "dilation": "D"}
_TRIVIAL = {"stride": 1, "padding": 0, "dilation": 1}


@frozen(kw_only=True)
class WindowCode:
    """A window, the letters of the sides, and whether the window's numbers have names in the kernel."""

    window: Window
    axes: tuple[str, ...]
    is_named: bool

    @property
    def outs(self) -> tuple[str, ...]:
        """Return the names of the result's lengths."""
        return tuple(f"O{axis}" for axis in self.axes)

    def number(self, kind: str, side: int) -> str:
        """Return one of the window's numbers, or nothing where it changes nothing."""
        values: tuple[int, ...] = getattr(self.window, kind)
        if kind in _TRIVIAL and values[side] == _TRIVIAL[kind] and (not self.is_named or len(set(values)) == 1):
            return ""
        if not self.is_named:
            return str(values[side])
        if kind in _SHARED and len(set(values)) == 1:
            return _SHARED[kind]
        return f"{_SHORT[kind]}_{self.axes[side]}" if kind in _SHARED else f"K{self.axes[side]}"

    @property
    def constants(self) -> list[tuple[str, str]]:
        """Return the kernel's constants for the window."""
        found: dict[str, str] = {}
        if self.is_named:
            for kind in ("kernel", "stride", "padding", "dilation"):
                for side in range(self.window.rank):
                    if name := self.number(kind, side):
                        found[name] = str(getattr(self.window, kind)[side])
        return list(found.items())

    @property
    def taps(self) -> str:
        """Return the number of elements under the window."""
        if not self.is_named:
            return str(self.window.taps)
        names = [self.number("kernel", side) for side in range(self.window.rank)]
        return names[0] if len(names) == 1 else f"({' * '.join(names)})"

    def split_taps(self, index: str) -> list[tuple[str, str]]:
        """Return (name, expression) of a tap's position on each side, the last first; sides of width one have none."""
        found = []
        for side in reversed(range(self.window.rank)):
            if not self.is_named and self.window.kernel[side] == 1:
                continue
            later = [self.number("kernel", after) for after in range(side + 1, self.window.rank)]
            divisor = _times(later) if self.is_named else str(prod(map(int, later)))
            quotient = index if divisor in ("", "1") else f"{index} // {divisor}"
            found.append((self.tap(side), f"{quotient} % {self.number('kernel', side)}"))
        return found

    def split_places(self, index: str, has_more: bool) -> list[str]:
        """Write statements that find a result's place on each side; `has_more` where the index counts planes too."""
        lines = []
        for side in reversed(range(self.window.rank)):
            divisor = _times(self.outs[side + 1 :])
            quotient = f"{index} // {divisor}" if divisor else index
            is_first = side == 0 and not has_more
            lines.append(f"{self.place(side)} = {quotient if is_first else f'{quotient} % {self.outs[side]}'}")
        return lines

    @property
    def plane(self) -> str:
        """Return the number of elements of one channel of the result."""
        return _times(self.outs)

    def place(self, side: int) -> str:
        return f"o{LETTERS[self.axes[side]]}"

    def tap(self, side: int) -> str:
        return f"k{LETTERS[self.axes[side]]}"

    def source(self, side: int) -> str:
        return f"i{LETTERS[self.axes[side]]}"

    def find_source(self, side: int) -> list[str]:
        """Write statements that find the input's place on a side from the result's and the tap's."""
        stride, padding, dilation = (self.number(kind, side) for kind in ("stride", "padding", "dilation"))
        has_tap = self.is_named or self.window.kernel[side] > 1
        step = (f"{self.tap(side)} * {dilation}" if dilation else self.tap(side)) if has_tap else ""
        place = self.place(side)
        if self.window.is_transposed:
            value = place + (f" + {padding}" if padding else "") + (f" - {step}" if step else "")
            if not stride:
                return [f"{self.source(side)} = {value}"]
            far = f"s{LETTERS[self.axes[side]]}"
            return [f"{far} = {value}", f"{self.source(side)} = {far} // {stride}"]
        value = (f"{place} * {stride}" if stride else place) + (f" - {padding}" if padding else "")
        return [f"{self.source(side)} = {value}" + (f" + {step}" if step else "")]

    def is_inside(self, side: int) -> str:
        """Return the condition that the input has the place, or nothing where it cannot fail."""
        axis, source = self.axes[side], self.source(side)
        if self.window.is_transposed:
            if stride := self.number("stride", side):
                far = f"s{LETTERS[axis]}"
                return f"({far} >= 0) & ({far} % {stride} == 0) & ({source} < {axis})"
            return f"({source} >= 0) & ({source} < {axis})"
        if self.window.padding[side] or self.number("padding", side):
            return f"({source} >= 0) & ({source} < {axis})"
        return ""

    @property
    def is_guarded(self) -> bool:
        """Return whether a window may reach beyond the input, so that `inside` says where it does not."""
        return any(self.is_inside(side) for side in range(self.window.rank))

    def address(self, plane: str) -> str:
        """Write the input's element in a plane."""
        return self._fold(plane, [(axis, self.source(side)) for side, axis in enumerate(self.axes)])

    def result_address(self, plane: str) -> str:
        """Write the result's element in a plane."""
        return self._fold(plane, [(out, self.place(side)) for side, out in enumerate(self.outs)])

    def tap_address(self, first: str) -> str:
        """Write a weight's element for a filter (and channel) and the loops' taps."""
        pairs = [
            (self.number("kernel", side), self.tap(side) if self.has_loop(side) else "")
            for side in range(self.window.rank)
        ]
        return self._fold(first, [(size, tap) for size, tap in pairs if size != "1"])

    @staticmethod
    def _fold(first: str, pairs: Sequence[tuple[str, str]]) -> str:
        index = first
        for size, place in pairs:
            index = f"{f'({index})' if ' ' in index else index} * {size}" + (f" + {place}" if place else "")
        return index

    def has_loop(self, side: int) -> bool:
        """Return whether a loop runs over a side's taps."""
        return self.is_named or self.window.kernel[side] > 1

    def loop_taps(self, head: str, guard: str, body: Sequence[str]) -> list[str]:
        """Write loops over the taps, each side's place found as early as it is known, around `body`.

        `head` is "range" or "tl.static_range"; `guard` is what `inside` holds besides the window's own conditions.
        """
        lines: list[str] = []
        depth = 0
        conditions = [guard] if guard else []
        for side in range(self.window.rank):
            if self.has_loop(side):
                lines.append("    " * depth + f"for {self.tap(side)} in {head}({self.number('kernel', side)}):")
                depth += 1
            lines += ["    " * depth + line for line in self.find_source(side)]
            if condition := self.is_inside(side):
                conditions.append(condition)
        if conditions:
            lines.append("    " * depth + f"inside = {' & '.join(conditions)}")
        return lines + ["    " * depth + line for line in body]


def _times(names: Sequence[str]) -> str:
    if len(names) < 2:
        return names[0] if names else ""
    return f"({' * '.join(names)})"


def draw_code(draw: Draw, window: Window) -> WindowCode:
    """Draw how one kernel writes its window."""
    return WindowCode(window=window, axes=draw.choice(_AXES[window.rank]), is_named=draw.chance(0.4))
