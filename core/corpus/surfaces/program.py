"""A reference program in parts: sizes, constructor, forward pass and inputs, as syntax trees that a surface changes.

Families write one canonical form. What a program has beyond it (a helper function, a second class) is kept as it is.
"""

from __future__ import annotations

import ast

from attrs import Factory, define

from .expressions import attribute_of_self, calls_in, names_in

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
    extras: list[ast.stmt] = Factory(list)
    """Functions and classes beside the model."""
    values: list[tuple[str, ast.expr]] = Factory(list)
    """Constants of the module that are no sizes, in the order in which they are written."""
    constants: list[tuple[str, ast.expr]] = Factory(list)
    """Constants of the module that the class names, which the solution has as well."""
    further: str = ""
    """What the constructor calls keywords beyond its arguments, where it takes them."""
    moved: dict[str, str] = Factory(dict)
    """Attributes that moved into a container, with the path from `self` that reads them now."""
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
        nodes = [*self.init, *self.statements(), *self.extras]
        found = {name for node in nodes for name in names_in(node)}
        found |= {name for name, _ in self.sizes} | {name for name, _ in (*self.values, *self.constants)}
        found |= {parameter.name for parameter in self.parameters} | {argument.name for argument in self.arguments}
        return found | _OWN


def read_program(source: str) -> Program | None:
    """Return a canonical program in parts; none where it has another form."""
    sizes: list[tuple[str, int]] = []
    functions: dict[str, ast.FunctionDef] = {}
    extras: list[ast.stmt] = []
    model: ast.ClassDef | None = None
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if not isinstance(node.value, ast.Constant) or type(node.value.value) is not int:
                return None
            sizes.append((node.targets[0].id, node.value.value))
        elif isinstance(node, ast.FunctionDef) and node.name in ("get_inputs", "get_init_inputs"):
            functions[node.name] = node
        elif isinstance(node, ast.ClassDef) and node.name == "Model":
            model = node
        elif not isinstance(node, (ast.Import, ast.ImportFrom)):
            extras.append(node)
    if model is None or len(functions) != 2:
        return None
    drawn, given = _returned(functions["get_inputs"]), _returned(functions["get_init_inputs"])
    return None if drawn is None or given is None else _read_model(model, sizes, extras, drawn, given)


def _returned(function: ast.FunctionDef) -> list[ast.expr] | None:
    """Return the list that a function of one statement returns."""
    (*others, last) = function.body
    if others or not isinstance(last, ast.Return) or not isinstance(last.value, ast.List):
        return None
    return last.value.elts


def _read_model(
    model: ast.ClassDef,
    sizes: list[tuple[str, int]],
    extras: list[ast.stmt],
    drawn: list[ast.expr],
    given: list[ast.expr],
) -> Program | None:
    methods = {node.name: node for node in model.body if isinstance(node, ast.FunctionDef)}
    forward, constructor = methods.pop("forward", None), methods.pop("__init__", None)
    if forward is None or any(isinstance(node, ast.ClassDef) for node in model.body):
        return None
    arguments = [argument.arg for argument in forward.args.args[1:]]
    parameters = [] if constructor is None else [argument.arg for argument in constructor.args.args[1:]]
    if len(arguments) != len(drawn) or len(parameters) != len(given):
        return None
    return Program(
        sizes=sizes,
        arguments=[Argument(name, value) for name, value in zip(arguments, drawn, strict=True)],
        forward=forward.body,
        parameters=[Parameter(name, value) for name, value in zip(parameters, given, strict=True)],
        init=[] if constructor is None else constructor.body[1:],
        methods=[
            Method(node.name, [argument.arg for argument in node.args.args[1:]], node.body) for node in methods.values()
        ],
        extras=extras,
        has_constructor=constructor is not None,
    )


def has_same_interface(first: str, second: str) -> bool:
    """Return whether two canonical programs have the same constructor and the same inputs, by name."""
    programs = [read_program(text) for text in (first, second)]
    interfaces = [
        (
            [argument.name for argument in program.arguments],
            [parameter.name for parameter in program.parameters],
            [ast.dump(node) for node in program.init],
        )
        for program in programs
        if program is not None
    ]
    return len(interfaces) == 2 and interfaces[0] == interfaces[1]
