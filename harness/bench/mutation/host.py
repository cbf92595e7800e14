"""Mistakes of the host code: grids, sizes, arguments of launches, and parameters of the model."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from .program import Edit, MutationClass, Program, called, is_launch


def mutate_grids(program: Program) -> Iterator[Edit]:
    """Propose a grid with a program too few or too many on one axis, with one program, or with its axes swapped."""
    kind = MutationClass.GRID
    for grid in _find_grids(program):
        for size in grid.elts:
            less = ast.BinOp(left=size, op=ast.Sub(), right=ast.Constant(value=1))
            more = ast.BinOp(left=size, op=ast.Add(), right=ast.Constant(value=1))
            half = ast.BinOp(left=size, op=ast.FloorDiv(), right=ast.Constant(value=2))
            yield program.replace(kind, "a program too few", size, less)
            yield program.replace(kind, "a program too many", size, more)
            yield program.replace(kind, "half of the programs", size, half)
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
