"""Stage 1: what the text alone tells.

The stage answers three cheap questions: is this Python, does it have the form that was asked for (a class `ModelNew`
with `forward`, a function under `triton.jit`, a launch), and does it reach for things that a kernel never needs. It is
a filter that saves work and gives the policy early feedback. It is not the defence: published evasions pass every
static gate, so what a candidate can do is bounded by construction instead (a sandbox without the reference, a plan
that is audited as data). Hence the rule for what is refused: only what no genuine kernel does. Names are resolved
through imports and scopes, so a variable that is called `input` or a method that is called `compile` is no offence.
"""

from __future__ import annotations

import ast
import symtable
import threading
import warnings
from collections.abc import Iterator
from functools import lru_cache

from ..core.candidate import Candidate, Failure
from ..core.outcome import Outcome, Stage
from ..core.verdict import StageResult
from .decision import decide

MAX_SOURCE_CHARACTERS = 200_000

ALLOWED_MODULES = frozenset(
    [
        "__future__",
        "abc",
        "collections",
        "collections.abc",
        "contextlib",
        "dataclasses",
        "enum",
        "functools",
        "itertools",
        "math",
        "numbers",
        "operator",
        "torch",
        "torch.autograd",
        "torch.nn",
        "triton",
        "triton.language",
        "typing",
        "typing_extensions",
        "warnings",
    ]
)
_ALLOWED_BELOW = ("torch.nn.", "triton.language.")

FORBIDDEN_BUILTINS = frozenset(
    [
        "__builtins__",
        "__import__",
        "__loader__",
        "__spec__",
        "breakpoint",
        "compile",
        "eval",
        "exec",
        "exit",
        "globals",
        "input",
        "locals",
        "memoryview",
        "open",
        "quit",
        "vars",
    ]
)
ALLOWED_DUNDERS = frozenset(["__call__", "__class__", "__doc__", "__init__", "__name__", "__version__"])
_FRAME_ATTRIBUTES = frozenset(
    ["_getframe", "cr_frame", "f_back", "f_builtins", "f_globals", "f_locals", "gi_frame", "tb_frame"]
)

FORBIDDEN_PATHS = frozenset(
    [
        "torch.classes",
        "torch.compile",
        "torch.cuda.CUDAGraph",
        "torch.cuda.Stream",
        "torch.cuda.graph",
        "torch.cuda.stream",
        "torch.fx",
        "torch.hub",
        "torch.jit",
        "torch.library",
        "torch.load",
        "torch.multiprocessing",
        "torch.ops",
        "torch.save",
        "torch.utils",
        "triton.testing",
        "triton.compiler",
        "triton.runtime.jit",
    ]
)

# `warnings.catch_warnings` swaps process-wide state, so that two threads must not do it at once
_PARSING = threading.Lock()


def judge_syntax(candidate: Candidate) -> StageResult:
    """The AST stage's decision."""
    return decide(Stage.AST, _inspect_once(candidate.source), candidate.evidence.ast_seconds)


@lru_cache(maxsize=256)
def _inspect_once(source: str) -> Failure | None:
    # a funnel asks twice: whether to go on, and in the final fold
    return inspect_source(source)


def inspect_source(source: str) -> Failure | None:
    """The first objection to a source text, or None; never raises, whatever the text."""
    if not source.strip():
        return Failure(outcome=Outcome.NO_CODE)
    if len(source) > MAX_SOURCE_CHARACTERS:
        return Failure(outcome=Outcome.SYNTAX_ERROR, message=f"longer than {MAX_SOURCE_CHARACTERS} characters")
    try:
        with _PARSING, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
            scopes = symtable.symtable(source, "candidate.py", "exec")
        return _inspect(tree, scopes)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        return Failure(outcome=Outcome.SYNTAX_ERROR, message=f"{where}{error.msg}")
    except (RecursionError, MemoryError):
        return Failure(outcome=Outcome.SYNTAX_ERROR, message="nested too deeply")
    except (ValueError, OverflowError) as error:  # null bytes, lone surrogates, enormous literals
        return Failure(outcome=Outcome.SYNTAX_ERROR, message=str(error).splitlines()[0] if str(error) else "")


def _inspect(tree: ast.Module, scopes: symtable.SymbolTable) -> Failure | None:
    nodes = list(ast.walk(tree))
    names = _Names(nodes)
    return (
        _find_forbidden_import(nodes)
        or _find_forbidden_builtin(scopes)
        or _find_forbidden_access(nodes, names)
        or _find_missing_form(tree, nodes, names)
    )


class _Names:
    """Which dotted path each imported or plainly re-assigned name stands for."""

    def __init__(self, nodes: list[ast.AST]) -> None:
        self.paths: dict[str, str] = {}
        self.modules: set[str] = set()
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    self.paths[name] = alias.name if alias.asname else name
                    self.modules.add(name)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    if alias.name == "*" and node.module == "triton":
                        self.paths.setdefault("jit", "triton.jit")
                    elif alias.name != "*":
                        self.paths[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                path = self.resolve(node.value)
                if path is not None and node.targets[0].id not in self.paths:
                    self.paths[node.targets[0].id] = path

    def resolve(self, node: ast.AST) -> str | None:
        """The dotted path of a name or attribute chain that starts at an import, else None."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.paths:
            return None
        return ".".join([self.paths[node.id], *reversed(attributes)])


def _is_allowed(module: str) -> bool:
    return module in ALLOWED_MODULES or module.startswith(_ALLOWED_BELOW)


def _find_forbidden_import(nodes: list[ast.AST]) -> Failure | None:
    for node in nodes:
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = ["." * node.level + (node.module or "")]
        else:
            continue
        for module in modules:
            if not _is_allowed(module):
                return Failure(outcome=Outcome.FORBIDDEN_IMPORT, message=f"line {node.lineno}: {module}")
    return None


def _find_forbidden_builtin(module_scope: symtable.SymbolTable) -> Failure | None:
    """A use of a built-in of the list, wherever the name is not bound to something of the source's own."""
    own = {s.get_name() for s in module_scope.get_symbols() if s.is_namespace() or s.is_imported()}
    pending = [module_scope]
    while pending:
        scope = pending.pop()
        pending.extend(scope.get_children())
        is_module = scope is module_scope
        for symbol in scope.get_symbols():
            name = symbol.get_name()
            if name not in FORBIDDEN_BUILTINS or name in own or not symbol.is_referenced():
                continue
            if is_module or symbol.is_global():
                return Failure(outcome=Outcome.FORBIDDEN_NAME, message=f"line {scope.get_lineno()} or after: {name}")
    return None


def _find_forbidden_access(nodes: list[ast.AST], names: _Names) -> Failure | None:
    for node in nodes:
        name = _forbidden_access(node, names)
        if name is not None:
            return Failure(outcome=Outcome.FORBIDDEN_NAME, message=f"line {getattr(node, 'lineno', 0)}: {name}")
    return None


def _forbidden_access(node: ast.AST, names: _Names) -> str | None:
    if isinstance(node, ast.ImportFrom):
        paths = (f"{node.module}.{alias.name}" for alias in node.names)
        return next((path for path in paths if _is_forbidden_path(path)), None)
    if isinstance(node, ast.Attribute):
        attribute = node.attr
        if _is_dunder(attribute) and attribute not in ALLOWED_DUNDERS:
            return attribute
        if attribute in _FRAME_ATTRIBUTES:
            return attribute
        path = names.resolve(node)
        if path is None:
            return None
        if _is_forbidden_path(path):
            return path
        if not isinstance(node.ctx, ast.Load) and path.startswith(("torch.", "triton.", "math.")):
            # rebinding a library's attribute; numerical switches under torch.backends are no patch
            return None if path.startswith("torch.backends.") else f"assignment to {path}"
        return None
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return None
    if node.func.id in ("getattr", "setattr", "delattr"):
        return _forbidden_reflection(node.func.id, node.args)
    return None


def _forbidden_reflection(function: str, arguments: list[ast.expr]) -> str | None:
    """`getattr` and its kin are fine on `self`, and `getattr` with a plain literal name anywhere."""
    if len(arguments) < 2:
        return function
    target, name = arguments[0], arguments[1]
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        if name.value.startswith("_"):
            return f"{function} of {name.value}"
        if function == "getattr":
            return None
    is_self = isinstance(target, ast.Name) and target.id == "self"
    return None if is_self else f"{function} with a computed name or a foreign object"


def _is_dunder(name: str) -> bool:
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def _is_forbidden_path(path: str) -> bool:
    parts = path.split(".")
    if parts[0] in ("torch", "triton") and any(part.startswith("_") and not _is_dunder(part) for part in parts[1:]):
        return True
    return any(".".join(parts[:end]) in FORBIDDEN_PATHS for end in range(2, len(parts) + 1))


def _find_missing_form(tree: ast.Module, nodes: list[ast.AST], names: _Names) -> Failure | None:
    classes = {node.name: node for node in _top_level(tree.body) if isinstance(node, ast.ClassDef)}
    if "ModelNew" not in classes or not _has_forward(classes["ModelNew"], classes):
        return Failure(outcome=Outcome.NO_MODEL)
    kernels = set(_kernel_names(nodes, names))
    if not kernels:
        return Failure(outcome=Outcome.NO_KERNEL)
    if not any(_is_launch(node, kernels) for node in nodes):
        return Failure(outcome=Outcome.NO_LAUNCH)
    return None


def _top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module body, also those below `if` and `try`."""
    for statement in body:
        yield statement
        for part in ("body", "orelse", "finalbody"):
            if isinstance(statement, (ast.If, ast.Try)):
                yield from _top_level(getattr(statement, part, []))


def _has_forward(model: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool:
    seen: set[str] = set()
    pending = [model]
    while pending:
        current = pending.pop()
        if current.name in seen:
            continue
        seen.add(current.name)
        for statement in current.body:
            if isinstance(statement, ast.FunctionDef) and statement.name == "forward":
                return True
        pending.extend(classes[b.id] for b in current.bases if isinstance(b, ast.Name) and b.id in classes)
    return False


def _is_jit(node: ast.expr, names: _Names) -> bool:
    if isinstance(node, ast.Call):
        node = node.func
    return names.resolve(node) == "triton.jit"


def _kernel_names(nodes: list[ast.AST], names: _Names) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and any(_is_jit(d, names) for d in node.decorator_list):
            yield node.name
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _is_jit(node.value, names):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _is_launch(node: ast.AST, kernels: set[str]) -> bool:
    """`kernel[grid](...)`, with any expression for the kernel; or `kernel[grid]` kept to be called later."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Subscript)
    return isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in kernels
