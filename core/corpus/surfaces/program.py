"""A reference program in parts: sizes, constructor, forward pass and inputs, as syntax trees that a surface changes.

Families write one canonical form.
"""

from __future__ import annotations

import ast

from attrs import Factory, define

from .expressions import attribute_of_self, calls_in, names_in, path_of

_OWN = frozenset({"torch", "nn", "F", "math"})


@define
class Parameter:
    """An argument of the constructor with the value that `get_init_inputs` gives it.

    One with a default may be left to it (`is_passed`).
    """

    name: str
    value: ast.expr
    default: ast.expr | None = None
    is_passed: bool = True


@define
class Argument:
    """An input of `forward` with the expression that draws it."""

    name: str
    value: ast.expr


@define
class Method:
    """A further method of the model."""

    name: str
    arguments: list[str]
    body: list[ast.stmt]


@define
class Program:
    """A reference program; statements of the constructor come after the call of its superclass."""

    sizes: list[tuple[str, int]]
    arguments: list[Argument]
    forward: list[ast.stmt]
    parameters: list[Parameter] = Factory(list)
    init: list[ast.stmt] = Factory(list)
    methods: list[Method] = Factory(list)
    values: list[tuple[str, ast.expr]] = Factory(list)
    """Constants of the module that are no sizes, in the order in which they are written."""
    constants: list[tuple[str, ast.expr]] = Factory(list)
    """Constants of the module that the class names, which the solution has as well."""
    further: str = ""
    """What the constructor calls keywords beyond its arguments, where it takes them."""
    moved: dict[str, str] = Factory(dict)
    """Attributes that moved into a container, with the path from `self` that reads them now."""
    loops: list[tuple[tuple[tuple[str, str], ...], int]] = Factory(list)
    """Loops of `forward` over lists of layers: each list with what the loop calls a layer, and their length."""
    functions: list[tuple[str, str, ast.stmt]] = Factory(list)
    """Functions of the module that build layers: the name, the first line, and the statement."""
    kept_dims: dict[int, str] = Factory(dict)
    """Dimensions that attributes keep, with the attribute."""
    has_constructor: bool = False

    def attributes(self) -> dict[str, ast.expr]:
        """Return what the constructor assigns to attributes of `self`, in order."""
        found: dict[str, ast.expr] = {}
        for node in self.init:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
                found[node.targets[0].attr] = node.value
        return found

    def called_methods(self) -> list[Method]:
        """Return the further methods that the constructor calls."""
        called = {attribute_of_self(made.func) for made in calls_in(self.init)}
        return [made for made in self.methods if made.name in called]

    def statements(self) -> list[ast.stmt]:
        """Return the statements of the forward pass and of further methods."""
        return [*self.forward, *(node for made in self.methods for node in made.body)]

    def taken(self) -> set[str]:
        """Return the names that the program uses."""
        nodes = [*self.init, *self.statements()]
        found = {name for node in nodes for name in names_in(node)}
        found |= {name for name, _ in self.sizes} | {name for name, _ in (*self.values, *self.constants)}
        found |= {parameter.name for parameter in self.parameters} | {argument.name for argument in self.arguments}
        return found | _OWN | {called for called, _, _ in self.functions}


def read_program(source: str) -> Program:
    """Return a canonical program in parts."""
    body = ast.parse(source).body
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef)}
    (model,) = [node for node in body if isinstance(node, ast.ClassDef)]
    methods = {node.name: node for node in model.body if isinstance(node, ast.FunctionDef)}
    constructor = methods.get("__init__")
    inputs = zip(_arguments(methods["forward"]), _returned(functions["get_inputs"]), strict=True)
    given = zip(_arguments(constructor), _returned(functions["get_init_inputs"]), strict=True)
    return Program(
        sizes=[
            (path_of(node.targets[0]), ast.literal_eval(node.value)) for node in body if isinstance(node, ast.Assign)
        ],
        arguments=[Argument(name, value) for name, value in inputs],
        forward=methods["forward"].body,
        parameters=[Parameter(name, value) for name, value in given],
        init=[] if constructor is None else constructor.body[1:],
        has_constructor=constructor is not None,
    )


def _arguments(function: ast.FunctionDef | None) -> list[str]:
    return [] if function is None else [argument.arg for argument in function.args.args[1:]]


def _returned(function: ast.FunctionDef) -> list[ast.expr]:
    """Return the list that a function of one statement returns."""
    (last,) = function.body
    assert isinstance(last, ast.Return)
    assert isinstance(last.value, ast.List)
    return last.value.elts


def has_same_interface(first: str, second: str) -> bool:
    """Return whether two canonical programs have the same constructor and the same inputs, by name."""
    programs = [read_program(text) for text in (first, second)]
    one, other = (
        (
            [argument.name for argument in program.arguments],
            [parameter.name for parameter in program.parameters],
            [ast.dump(node) for node in program.init],
        )
        for program in programs
    )
    return one == other
