"""Uses of the order of a set, which Python draws anew for each process where words or objects are in it.

A forward that goes by it does one thing here and another with its users. Membership, length, comparison and `sorted`
tell no order. As with all that is read in a text, what travels through containers and calls is not followed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .scopes import Names, Scope

_ORDERED_BY = frozenset(["dict", "enumerate", "iter", "list", "map", "next", "tuple", "zip"])
_ADVICE = "the order of a set, which differs from process to process; use sorted(...)"


def find_uses_of_order(names: Names) -> Iterator[tuple[int, str]]:
    """Line and words for each place that goes through a set in its order."""
    sets = {
        (scope, target.id)
        for target, value, scope in names.assignments
        if isinstance(target, ast.Name) and _makes_set(value)
    }

    def is_set(node: ast.expr, scope: Scope) -> bool:
        if isinstance(node, ast.Name) and (found := scope.find(node.id)) is not None:
            return (found, node.id) in sets
        return _makes_set(node)

    for _, iterated, scope in names.loops:
        if is_set(iterated, scope):
            yield iterated.lineno, _ADVICE
    for call, scope in names.calls:
        function = call.func
        own = isinstance(function, ast.Name) and function.id in _ORDERED_BY and scope.find(function.id) is None
        if own or getattr(function, "attr", "") == "join":
            given = call.args
        elif isinstance(function, ast.Attribute) and function.attr == "pop" and not call.args:
            given = [function.value]
        else:
            given = [part.value for part in call.args if isinstance(part, ast.Starred)]
        if any(is_set(part, scope) for part in given):
            yield call.lineno, _ADVICE
    for target, value, scope in names.assignments:
        if isinstance(target, (ast.Tuple, ast.List)) and is_set(value, scope):
            yield value.lineno, _ADVICE


def _makes_set(node: ast.expr) -> bool:
    """Whether an expression makes a set in which more than numbers may be."""
    if isinstance(node, ast.Set):
        return not all(isinstance(part, ast.Constant) and isinstance(part.value, (int, float)) for part in node.elts)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("set", "frozenset") and bool(node.args)
    return isinstance(node, ast.SetComp)
