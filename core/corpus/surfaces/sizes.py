"""The sizes of a surface: what they are called, and whether they are names, tuples or plain numbers.

A profile rewrites a task's sizes by name. Those in tuples, in joint assignments or in functions get names by
`core.text.named_sizes`, as the sizes of programs that are not ours do: the names it gives are found here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from keyword import kwlist

from attrs import Factory, define

from ...text.named_sizes import LEAST, name_sizes, read_constants
from ..builder.draw import Draw
from .dialects import Dialect, weighted
from .expressions import drawn_shape, name, names_in, path_of, rename_in, replaced, walk
from .program import Program

_SIDES = {1: ("length",), 2: ("height", "width"), 3: ("depth", "height", "width")}
_POSITIONS: dict[int, tuple[tuple[str, ...], ...]] = {
    1: (("size",), ("n",), ("num_elements",), ("length",)),
    2: (("batch_size", "dim"), ("batch_size", "features"), ("rows", "cols"), ("batch_size", "input_size")),
    3: (("batch_size", "seq_len", "dim"), ("batch_size", "dim1", "dim2"), ("batch_size", "seq_len", "hidden_size")),
    4: (("batch_size", "channels", "height", "width"), ("batch_size", "features", "dim1", "dim2")),
    5: (("batch_size", "channels", "depth", "height", "width"), ("batch_size", "features", "dim1", "dim2", "dim3")),
}
_HEADS = (("batch_size", "num_heads", "seq_len", "head_dim"), ("batch", "heads", "seq_length", "head_size"))
_CHANNELS = frozenset({"C", "CHANNELS", "channels", "C_IN", "CI", "IN_CHANNELS", "in_channels"})
_LENGTHS = frozenset({"L", "LENGTH", "length"})


@define
class SizeText:
    """How sizes are written: lines of the module, and the name by which a profile changes each."""

    lines: list[str] = Factory(list)
    by_name: dict[str, str] = Factory(dict)
    """Canonical name to the name in the program; those in `by_value` are not there."""
    by_value: dict[str, int] = Factory(dict)
    """Sizes that are plain numbers in functions."""


def write_sizes(program: Program, dialect: Dialect, draw: Draw) -> SizeText:
    """Choose names and forms of the sizes, and rewrite their uses."""
    canonical = [size for size, _ in program.sizes]
    chosen = _choose_names(program, weighted(draw, dialect.size_style), draw)
    for node in _expressions(program):
        rename_in(node, chosen)
    program.sizes = [(chosen[size], value) for size, value in program.sizes]
    program.values = [(chosen.get(key, key), value) for key, value in program.values]
    if draw.chance(dialect.literal_sizes) and _may_be_literal(program):
        return _write_numbers(program, canonical)
    text = SizeText(by_name={size: chosen[size] for size in canonical})
    if draw.chance(dialect.tuple_sizes) and (tail := _find_tail(program)):
        _write_tuple(program, tail, text, chosen, draw)
    else:
        _write_lines(program, text, draw.chance(dialect.joined_sizes))
    return text


def _expressions(program: Program) -> Iterator[ast.expr]:
    """Yield the expressions of the module that may name a size."""
    for argument in program.arguments:
        yield argument.value
    for parameter in program.parameters:
        yield parameter.value
    for _, value in program.values:
        yield value


def _shape(program: Program, place: int = 0) -> list[str]:
    """Return the names of an input's dimensions, where they are names."""
    return drawn_shape(program.arguments[place].value) if place < len(program.arguments) else []


def _choose_names(program: Program, style: str, draw: Draw) -> dict[str, str]:
    canonical = [size for size, _ in program.sizes]
    # a size that an argument of the constructor gives is most often called like it
    given = {
        parameter.value.id: parameter.name
        for parameter in program.parameters
        if isinstance(parameter.value, ast.Name) and parameter.value.id in canonical
    }
    positions = dict(zip(_shape(program), _positions(program, draw), strict=False))
    avoided = {constant for constant, _ in (*program.values, *program.constants)}
    avoided |= {argument.name for argument in program.arguments}
    avoided |= {"torch", "nn", "F", "math", "Model", *kwlist}
    chosen: dict[str, str] = {}
    for size in canonical:
        wanted = [size]
        if style != "given":
            wanted = [one for one in (given.get(size), positions.get(size), size.lower()) if one] + [size]
        if style == "upper":
            wanted = [one.upper() for one in wanted]
        free = [one for one in (*wanted, size, f"{size}_size") if one not in avoided]
        chosen[size] = next(one for one in (*free, f"{size}_")) if free else f"{size}_"
        avoided.add(chosen[size])
    if style == "upper":
        chosen |= {key: key.upper() for key, _ in program.values if key.upper() not in avoided}
    return chosen


def _positions(program: Program, draw: Draw) -> Sequence[str]:
    """Return names by place in the first input; none for products of matrices, whose letters everybody uses."""
    shape = _shape(program)
    rank = len(shape)
    if rank == 4 and {"S", "SEQ", "seq_len"} & set(shape):
        return draw.choice(_HEADS)
    others = [_shape(program, place) for place in range(1, len(program.arguments))]
    is_product = any(other and other != shape and len(other) > 1 for other in others) and not program.parameters
    if is_product or rank not in _POSITIONS:
        return ()
    if rank > 2 and len(shape) > 1 and shape[1] in _CHANNELS:
        return ("batch_size", "channels", *_SIDES[rank - 2])
    if rank > 2 and shape[-1] in _LENGTHS:
        return ("batch_size", "channels", "length")
    return draw.choice(_POSITIONS[rank])


def _may_be_literal(program: Program) -> bool:
    """Return whether plain numbers in the two functions tell all sizes apart, and no size is calculated with."""
    names = {size for size, _ in program.sizes}
    values = [value for _, value in program.sizes]
    if len(set(values)) < len(values) or max(values) < LEAST:
        return False
    if any(names & set(names_in(value)) for _, value in program.values):
        return False  # a number within a constant of the module is another size than the same one in the functions
    for node in _expressions(program):
        for part in walk(node):
            if isinstance(part, ast.BinOp) and names & set(names_in(part)) and not _is_drawn(part):
                return False
            if isinstance(part, ast.Constant) and part.value in values:
                return False
    return True


def _is_drawn(node: ast.BinOp) -> bool:
    """Return whether sizes stand in the calls of a sum or product only: `torch.randn(n) * 2 + 1`."""
    return all(
        not isinstance(side, ast.Name) and (not isinstance(side, ast.BinOp) or _is_drawn(side))
        for side in (node.left, node.right)
    )


def _write_numbers(program: Program, canonical: Sequence[str]) -> SizeText:
    values = dict(program.sizes)

    def change(node: ast.expr) -> ast.expr | None:
        return ast.Constant(value=values[node.id]) if isinstance(node, ast.Name) and node.id in values else None

    for argument in program.arguments:
        argument.value = replaced(argument.value, change)
    for parameter in program.parameters:
        parameter.value = replaced(parameter.value, change)
    program.values = [(constant, replaced(value, change)) for constant, value in program.values]
    return SizeText(by_value=dict(zip(canonical, values.values(), strict=True)))


def _write_lines(program: Program, text: SizeText, is_joined: bool) -> None:
    """Write a line for each size, or one for the sides.

    Equal sides become one value with several names, which profiles change together; not those that are given to the
    constructor, where one may have to be a multiple of something.
    """
    given = {used for parameter in program.parameters for used in names_in(parameter.value)}
    joined = _find_sides(program) if is_joined else []
    values = dict(program.sizes)
    is_one = len({values[side] for side in joined}) == 1
    if is_one and given & set(joined):
        joined = []
    for size, value in program.sizes:
        if size not in joined:
            text.lines.append(f"{size} = {value}")
        elif size == joined[0] and is_one:
            text.lines.append(f"{' = '.join(joined)} = {value}")
            # a profile changes the first name, and the others follow it
            text.by_name = {key: size if one in joined else one for key, one in text.by_name.items()}
        elif size == joined[0]:
            text.lines.append(f"{', '.join(joined)} = {', '.join(str(values[side]) for side in joined)}")


def _find_sides(program: Program) -> list[str]:
    """Return the sizes that people write in one statement: the last two or three; empty where there are none."""
    sizes = [size for size, _ in program.sizes]
    shape = _shape(program)
    count = len(shape) - 2 if len(shape) > 3 else 2
    return sizes[-count:] if len(sizes) > count else []


def _find_tail(program: Program) -> list[str]:
    """Return the sizes after the first that stand together wherever they are used; empty where there are none."""
    shape = _shape(program)
    tail = shape[1:]
    has_large = any(value >= LEAST for size, value in program.sizes if size in tail)
    if not has_large or len(set(tail)) < len(tail):
        return []
    uses = [used for node in _expressions(program) for used in names_in(node)]
    together = sum(1 for call in _drawing_calls(program, tail))
    return tail if together and all(uses.count(size) == together for size in tail) else []


def _drawing_calls(program: Program, tail: Sequence[str]) -> Iterator[ast.Call]:
    for argument in program.arguments:
        for node in walk(argument.value):
            if isinstance(node, ast.Call) and path_of(node.func) in ("torch.randn", "torch.rand"):
                ends = [part.id for part in node.args[-len(tail) :] if isinstance(part, ast.Name)]
                if ends == list(tail):
                    yield node


def _write_tuple(program: Program, tail: list[str], text: SizeText, chosen: dict[str, str], draw: Draw) -> None:
    shape = draw.choice(("input_shape", "input_shape", "shape", "dims"))
    if shape in program.taken() | set(chosen.values()):
        shape = "input_dims"
    values = dict(program.sizes)
    for node in list(_drawing_calls(program, tail)):
        node.args[-len(tail) :] = [ast.Starred(value=name(shape), ctx=ast.Load())]
    text.lines += [f"{size} = {value}" for size, value in program.sizes if size not in tail]
    inner = ", ".join(str(values[size]) for size in tail)
    text.lines.append(f"{shape} = ({inner}{',' if len(tail) == 1 else ''})")
    # `name_sizes` counts the elements that are large enough to be sizes
    numbered = [size for size in tail if values[size] >= LEAST]
    found = {size: f"{shape}_{place}" for place, size in enumerate(numbered)}
    by_canonical = {new: old for old, new in chosen.items()}
    for size in tail:
        del text.by_name[by_canonical[size]]
        if size in found:
            text.by_name[by_canonical[size]] = found[size]


def profile_names(text: SizeText, source: str) -> dict[str, str]:
    """Return the name by which a profile changes each canonical size; sizes that have none stay as declared."""
    if not text.by_value:
        return text.by_name
    named = {value: size for size, value in read_constants(name_sizes(source)).items()}
    return {size: named[value] for size, value in text.by_value.items() if value in named}
