"""Mistakes about memory (masks, offsets, bounds, accumulators, dtypes) and of the host code (grids, arguments)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from .program import Edit, MutationClass, Program, binary, called, is_launch, keyword_of

_OTHERS = {"0.0": ("1.0", '-float("inf")'), "inf": ("0.0", '-float("inf")'), "-inf": ("0.0", 'float("inf")')}
_NARROWER = ("tl.float16", "tl.bfloat16")


def mutate_masks(program: Program) -> Iterator[Edit]:
    """Propose a mask left out, too wide or too narrow by one, half of it; another value in masked lanes, or none."""
    kind = MutationClass.MASK
    for node in program.walk_kernels():
        match node:
            case ast.Call() if called(node) in ("load", "store"):
                yield from _mutate_access(program, node)
            case ast.Compare(left=left, ops=[ast.Lt()], comparators=[right]) if program.is_index(left):
                yield program.replace(kind, "< to <= in a mask", node, ast.Compare(left, [ast.LtE()], [right]))
                yield program.replace(kind, "< to > in a mask", node, ast.Compare(left, [ast.Gt()], [right]))
                narrower = ast.Compare(left, [ast.Lt()], [binary(right, ast.Sub(), 1)])
                yield program.replace(kind, "mask too narrow by one", node, narrower)
                for other in _other_sizes(program, right):
                    changed = ast.Compare(left, [ast.Lt()], [ast.Name(other, ast.Load())])
                    yield program.replace(kind, f"mask compares with {other}", node, changed)
            case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
                yield program.replace(kind, "left of & dropped", node, left)
                yield program.replace(kind, "right of & dropped", node, right)
                yield program.replace(kind, "& to |", node, binary(left, ast.BitOr(), right))


def _mutate_access(program: Program, call: ast.Call) -> Iterator[Edit]:
    kind = MutationClass.MASK
    other = keyword_of(call, "other")
    if other is not None:
        yield program.drop_keyword(kind, "other= dropped", call, "other")
        text = ast.unparse(other).replace("float('inf')", "inf")
        for changed in _OTHERS.get(text, ("0.0",)):
            yield program.replace(kind, f"other={text} to {changed}", other, changed)
    elif keyword_of(call, "mask") is not None:
        yield program.drop_keyword(kind, f"mask of a {called(call)} dropped", call, "mask")
    if other is not None and keyword_of(call, "mask") is not None:
        bare = ast.Call(func=call.func, args=call.args, keywords=[])
        yield program.replace(kind, "mask and other= dropped", call, bare)


def _other_sizes(program: Program, name: ast.expr) -> list[str]:
    """Return other sizes among the kernel's parameters that might be confused with this one."""
    sizes = program.sizes_of(name)
    return [size for size in sizes if size != name.id][:2] if isinstance(name, ast.Name) and name.id in sizes else []


def mutate_offsets(program: Program) -> Iterator[Edit]:
    """Propose an address off by one, a term or a stride left out, another size as stride."""
    kind = MutationClass.OFFSET
    for node in program.walk_kernels():
        match node:
            case ast.Call(args=[address, *_]) if called(node) in ("load", "store"):
                for op, symbol in ((ast.Add(), "+ 1"), (ast.Sub(), "- 1")):
                    change = f"address of a {called(node)} {symbol}"
                    yield program.replace(kind, change, address, binary(address, op, 1))
            case ast.BinOp(left=left, op=ast.Add() as op, right=right) if program.is_address(node):
                yield program.replace(kind, "term of an offset dropped", node, left)
                if program.is_index(left):
                    yield program.replace(kind, "term of an offset dropped", node, right)
                    yield program.replace(kind, "+ to - in an offset", node, binary(left, ast.Sub(), right))
            case ast.BinOp(left=left, op=ast.Mult() as op, right=right) if program.is_address(node):
                yield program.replace(kind, "stride dropped", node, left)
                yield program.replace(kind, "* to + in an offset", node, binary(left, ast.Add(), right))
                for other in _other_sizes(program, right):
                    changed = binary(left, op, ast.Name(other, ast.Load()))
                    yield program.replace(kind, f"stride {ast.unparse(right)} to {other}", node, changed)
            case ast.BinOp(left=left, op=(ast.FloorDiv() | ast.Mod()) as op, right=right) if program.is_index(node):
                other_op = ast.Mod() if isinstance(op, ast.FloorDiv) else ast.FloorDiv()
                yield program.replace(kind, "// and % swapped", node, binary(left, other_op, right))


def mutate_blocks(program: Program) -> Iterator[Edit]:
    """Propose a loop or a range that covers one block or one element too few or too many."""
    kind = MutationClass.BLOCK
    for node in program.walk_kernels():
        match node:
            case ast.For(iter=ast.Call(args=[start, stop, step]) as call) if called(call) == "range":
                yield program.replace(kind, "loop starts a block late", start, step)
                for op, change in ((ast.Sub(), "ends a block early"), (ast.Add(), "ends a block late")):
                    yield program.replace(kind, f"loop {change}", stop, binary(stop, op, step))
                yield program.replace(kind, "loop ends an element early", stop, binary(stop, ast.Sub(), 1))
                yield program.replace(kind, "loop skips every other block", step, binary(step, ast.Mult(), 2))
            case ast.For(iter=ast.Call(args=[stop]) as call) if called(call) == "range":
                for op, change in ((ast.Sub(), "a step less"), (ast.Add(), "a step more")):
                    yield program.replace(kind, f"loop takes {change}", stop, binary(stop, op, 1))
            case ast.Call(args=[start, stop]) if called(node) == "arange":
                yield program.replace(kind, "range shifted by one", node, binary(node, ast.Add(), 1))
                yield program.replace(kind, "range halved", stop, binary(stop, ast.FloorDiv(), 2))
    for node in program.walk_host():
        match node:
            case ast.Call(args=[size, block]) if called(node) == "cdiv":
                yield program.replace(kind, "cdiv to //", node, binary(size, ast.FloorDiv(), block))
            case ast.Call(args=[_]) if called(node) == "next_power_of_2":
                yield program.replace(kind, "block halved", node, f"{program.text(node)} // 2")
            case ast.keyword(arg=str(name), value=ast.Constant(value=int(size))) if name.isupper() and size > 1:
                for other in (size // 2, size * 2):
                    change = f"{name} {size} to {other}, grid unchanged"
                    yield program.replace(kind, change, node.value, repr(other))


def mutate_accumulators(program: Program) -> Iterator[Edit]:
    """Propose another initial value or a narrower dtype, or assignment where there should be accumulation."""
    kind = MutationClass.ACCUMULATOR
    for node in program.walk_kernels():
        match node:
            case ast.Call(args=[shape, *rest]) if called(node) in ("zeros", "full"):
                assert isinstance(node.func, ast.Attribute)
                full = ast.Attribute(value=node.func.value, attr="full", ctx=ast.Load())
                values = ("1.0",) if called(node) == "zeros" else ("0.0", "1.0")
                for value in values:
                    if rest and ast.unparse(rest[0]) == value:
                        continue
                    initial = ast.parse(value, mode="eval").body
                    made = ast.Call(func=full, args=[shape, initial, *rest[1:]], keywords=node.keywords)
                    yield program.replace(kind, f"initial value {value}", node, made)
                dtype = keyword_of(node, "dtype")
                if dtype is not None and ast.unparse(dtype) == "tl.float32":
                    for narrower in _NARROWER:
                        yield program.replace(kind, f"accumulator of {narrower}", dtype, narrower)
            case ast.AugAssign(target=ast.Name(), op=op, value=value):
                start, stop = program.span(node)
                target, added = program.text(node.target), program.text(value)
                for change, text in (("+= to =", f"{target} = {added}"), ("+= to -=", f"{target} -= {added}")):
                    if isinstance(op, ast.Add):
                        yield Edit(kind=kind, change=change, start=start, stop=stop, text=text)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if program.enclosing(node, ast.For):
                for call in ast.walk(value):
                    match call:
                        case ast.Call(args=[ast.Name(id=first), other]) if first == name and called(call) in (
                            "maximum",
                            "minimum",
                        ):
                            yield program.replace(kind, f"{called(call)} with {name} dropped", call, other)


def mutate_dtypes(program: Program) -> Iterator[Edit]:
    """Propose a conversion left out or to a narrower dtype, and values rounded where nothing should be."""
    kind = MutationClass.DTYPE
    for node in program.walk_kernels():
        match node:
            case ast.Call(func=ast.Attribute(value=value, attr="to"), args=[dtype]):
                yield program.replace(kind, "conversion dropped", node, value)
                for narrower in _NARROWER:
                    if ast.unparse(dtype) != narrower:
                        yield program.replace(kind, f"conversion to {narrower}", dtype, narrower)
            case ast.Call() if called(node) == "load":
                parent = program.parents[node]
                if not (isinstance(parent, ast.Attribute) and parent.attr == "to"):
                    for narrower in ("tl.float8e5", "tl.int32"):
                        yield program.replace(
                            kind, f"loaded value to {narrower}", node, f"{program.text(node)}.to({narrower})"
                        )
            case ast.Call(args=[_, value]) if called(node) == "store":
                for narrower in ("tl.float8e5", "tl.int8"):
                    yield program.replace(
                        kind, f"stored value to {narrower}", value, f"({program.text(value)}).to({narrower})"
                    )
    for node in program.walk_host():
        if isinstance(node, ast.keyword) and node.arg == "dtype":
            for other in ("torch.float16", "torch.int32"):
                if ast.unparse(node.value) != other:
                    yield program.replace(kind, f"result of {other}", node.value, other)


def mutate_grids(program: Program) -> Iterator[Edit]:
    """Propose a grid with a program too few or too many on one axis, with one program, or with its axes swapped."""
    kind = MutationClass.GRID
    for grid in _find_grids(program):
        for size in grid.elts:
            yield program.replace(kind, "a program too few", size, binary(size, ast.Sub(), 1))
            yield program.replace(kind, "a program too many", size, binary(size, ast.Add(), 1))
            yield program.replace(kind, "half of the programs", size, binary(size, ast.FloorDiv(), 2))
            yield program.replace(kind, "one program", size, "1")
        if len(grid.elts) == 2:
            turned = ast.Tuple(elts=grid.elts[::-1], ctx=ast.Load())
            yield program.replace(kind, "axes of the grid swapped", grid, turned)
    for node in program.walk_host():
        match node:
            case ast.Subscript(value=ast.Attribute(attr="shape"), slice=index):
                other = "0" if ast.unparse(index) != "0" else "-1"
                yield program.replace(kind, f"shape[{ast.unparse(index)}] to shape[{other}]", index, other)
            case ast.Call(args=[ast.Constant(value=(0 | 1) as axis)]) if called(node) == "stride":
                yield program.replace(kind, f"stride({axis}) to stride({1 - axis})", node.args[0], repr(1 - axis))
            case ast.Assign(targets=[ast.Tuple(elts=[first, second])], value=ast.Attribute(attr="shape")):
                turned = ast.Tuple(elts=[second, first], ctx=ast.Store())
                yield program.replace(kind, "sizes swapped", node.targets[0], turned)


def _find_grids(program: Program) -> list[ast.Tuple]:
    found = []
    for node in program.walk_host():
        match node:
            case ast.Assign(targets=[ast.Name(id="grid")], value=ast.Tuple() as grid):
                found.append(grid)
            case ast.Assign(targets=[ast.Name(id="grid")], value=ast.Lambda(body=ast.Tuple() as grid)):
                found.append(grid)
            case ast.Call(func=ast.Subscript(slice=ast.Tuple() as grid)):
                found.append(grid)
    return found


def mutate_arguments(program: Program) -> Iterator[Edit]:
    """Propose two neighbouring arguments swapped, or one in another's place."""
    kind = MutationClass.ARGUMENT
    for node in program.walk_host():
        if is_launch(node):
            assert isinstance(node, ast.Call)
            yield from _mutate_call(program, kind, node)
    for node in program.walk_kernels():
        match node:
            case ast.Call(args=[first, second]) if called(node) == "dot":
                turned = ast.Call(func=node.func, args=[second, first], keywords=node.keywords)
                yield program.replace(kind, "operands of dot swapped", node, turned)


def _mutate_call(program: Program, kind: MutationClass, call: ast.Call) -> Iterator[Edit]:
    for index, (left, right) in enumerate(pairwise(call.args)):
        if ast.dump(left) == ast.dump(right):
            continue
        (start, middle), (after, stop) = program.span(left), program.span(right)
        text = program.text(right) + program.source[middle:after] + program.text(left)
        yield Edit(kind=kind, change=f"arguments {index} and {index + 1} swapped", start=start, stop=stop, text=text)
        yield program.replace(kind, f"argument {index} twice", right, left)


def mutate_parameters(program: Program) -> Iterator[Edit]:
    """Propose another parameter of the model, another value of it, or one that was given otherwise."""
    kind = MutationClass.PARAMETER
    for node in program.walk_host():
        match node:
            case ast.Attribute(value=ast.Attribute(), attr=("weight" | "bias") as name, ctx=ast.Load()):
                other = "bias" if name == "weight" else "weight"
                changed = ast.Attribute(value=node.value, attr=other, ctx=ast.Load())
                yield program.replace(kind, f".{name} to .{other}", node, changed)
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=ast.Name() as value):
                for text in (f"{value.id} * 2", f"{value.id} + 1", f"-{value.id}", "1.0"):
                    yield program.replace(kind, f"self.{name} = {text}", value, text)
            case ast.keyword(arg="eps", value=ast.Constant() as value):
                yield program.replace(kind, "eps of the module", value, "0.1")
            case ast.Call() if called(node) in ("ones", "zeros", "randn") and _is_parameter(program, node):
                assert isinstance(node.func, ast.Attribute)
                other = {"ones": "zeros", "zeros": "ones", "randn": "ones"}[called(node)]
                changed = ast.Attribute(value=node.func.value, attr=other, ctx=ast.Load())
                yield program.replace(kind, f"parameter of {other}", node.func, changed)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Load()) if _is_operand(program, node):
                yield program.replace(kind, f"self.{name} negated", node, f"-self.{name}")
                yield program.replace(kind, f"1.0 for self.{name}", node, "1.0")


def _is_parameter(program: Program, node: ast.Call) -> bool:
    return called(program.parents[node]) == "Parameter"


def _is_operand(program: Program, node: ast.Attribute) -> bool:
    parent = program.parents[node]
    return isinstance(parent, ast.Call) and node in parent.args
