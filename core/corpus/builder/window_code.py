"""How a kernel finds the elements under a window.

The window's numbers are either written out, where what multiplies by one or adds nothing is left out, or are constants
of the kernel (`KH`, `STRIDE`, `PAD`), as people write both.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from attrs import frozen

from .draw import Draw
from .windows import Window

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
    def conditions(self) -> list[str]:
        """Return the conditions under which the input has what lies under a tap."""
        return [condition for side in range(self.window.rank) if (condition := self.is_inside(side))]

    @property
    def is_guarded(self) -> bool:
        """Return whether a window may reach beyond the input, so that `inside` says where it does not."""
        return bool(self.conditions)

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
        """Write loops over the taps around `body`, which `inside` is known to.

        `guard` is what `inside` holds besides the window's own conditions.
        """
        conditions = [guard, *self.conditions] if guard else self.conditions
        return self.loop(head, [*([f"inside = {' & '.join(conditions)}"] if conditions else []), *body])

    def loop(self, head: str, body: Sequence[str]) -> list[str]:
        """Write loops over the taps, each side's place found as early as it is known, around `body`.

        `head` is "range" or "tl.static_range".
        """
        lines: list[str] = []
        depth = 0
        for side in range(self.window.rank):
            if self.has_loop(side):
                lines.append("    " * depth + f"for {self.tap(side)} in {head}({self.number('kernel', side)}):")
                depth += 1
            lines += ["    " * depth + line for line in self.find_source(side)]
        return lines + ["    " * depth + line for line in body]


def _times(names: Sequence[str]) -> str:
    if len(names) < 2:
        return names[0] if names else ""
    return f"({' * '.join(names)})"


def draw_code(draw: Draw, window: Window) -> WindowCode:
    """Draw how one kernel writes its window."""
    return WindowCode(window=window, axes=draw.choice(_AXES[window.rank]), is_named=draw.chance(0.4))
