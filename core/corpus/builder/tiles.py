"""The tiles of matrix products: names of their indices and block sizes, and the lines that begin every such kernel."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from .draw import Draw


@frozen(kw_only=True)
class Tile:
    """The names of a tile's rows, columns and inner indices, and of how many of each a program takes."""

    rm: str
    rn: str
    rk: str
    bm: str
    bn: str
    bk: str

    def begin(self, acc: str, row: str = "tl.program_id(0)", column: str = "tl.program_id(1)") -> list[str]:
        """Write the rows and columns of the program at (`row`, `column`), and its accumulator."""
        return [*self.place(row, column), self.zeros(acc)]

    def place(self, row: str = "tl.program_id(0)", column: str = "tl.program_id(1)") -> list[str]:
        """Write the rows and columns of the program at (`row`, `column`)."""
        return [
            f"{self.rm} = {row} * {self.bm} + tl.arange(0, {self.bm})[:, None]",
            f"{self.rn} = {column} * {self.bn} + tl.arange(0, {self.bn})[None, :]",
        ]

    def zeros(self, acc: str) -> str:
        """Write the accumulator."""
        return f"{acc} = tl.zeros(({self.bm}, {self.bn}), dtype=tl.float32)"

    def constants(self, sizes: Sequence[int]) -> list[tuple[str, str]]:
        """Return the kernel's constants for block sizes (rows, columns, inner)."""
        return [(name, str(size)) for name, size in zip((self.bm, self.bn, self.bk), sizes, strict=True)]


def draw_tile(draw: Draw) -> Tile:
    """Draw a tile's names."""
    rm, rn, rk = draw.choice((("rm", "rn", "rk"), ("rm", "rn", "rk"), ("offs_m", "offs_n", "offs_k")))
    bm, bn, bk = draw.choice((("BM", "BN", "BK"), ("BM", "BN", "BK"), ("BLOCK_M", "BLOCK_N", "BLOCK_K")))
    return Tile(rm=rm, rn=rn, rk=rk, bm=bm, bn=bn, bk=bk)


def scale(index: str, stride: str) -> str:
    """Write an index times a stride, which is left out where it is 1."""
    return index if stride == "1" else f"{index} * {stride}"


LAYOUTS = {
    "nn": ("{a} @ {b}", "{a} and {b}"),
    "nt": ("{a} @ {b}.T", "{a} and {b} transposed"),
    "tn": ("{a}.T @ {b}", "{a} transposed and {b}"),
    "tt": ("{a}.T @ {b}.T", "{a} transposed and {b} transposed"),
}
"""Expression and text of a product whose factors lie as they are (n) or transposed (t)."""


def find_strides(layout: str, m: str, k: str, n: str) -> tuple[str, str, str, str]:
    """Return the strides of both factors, rows before columns."""
    return (*(("1", m) if layout[0] == "t" else (k, "1")), *(("1", k) if layout[1] == "t" else (n, "1")))


def place_factors(tile: Tile, strides: Sequence[str]) -> tuple[str, str]:
    """Write the offsets of both factors' elements by their strides."""
    a = f"{scale(tile.rm, strides[0])} + {scale(f'{tile.rk}[None, :]', strides[1])}"
    return a, f"{scale(f'{tile.rk}[:, None]', strides[2])} + {scale(tile.rn, strides[3])}"


def split_programs(num_columns: str, is_flat: bool) -> tuple[list[str], str, str]:
    """Write a program's (row, column) of tiles in a grid of two dimensions, or of one that is divided.

    Returns the lines before them, the row and the column.
    """
    if not is_flat:
        return [], "tl.program_id(0)", "tl.program_id(1)"
    return ["pid = tl.program_id(0)", f"num_n = {num_columns}"], "(pid // num_n)", "(pid % num_n)"
