"""Stage 1: what the text alone tells.

The stage answers three cheap questions: is this Python, does it have the form that was asked for (a class `ModelNew`
with `forward`, a function under `triton.jit`, a launch), and does it reach for things that a kernel never needs. It is
a filter that saves work and gives the policy early feedback. It is not the defence: published evasions pass every
static gate, so what a candidate can do is bounded by construction instead (a sandbox without the reference, a plan
that is audited as data). Hence the rule for what is refused: only what no genuine kernel does. Names are resolved
through imports and scopes (`scopes`), so a variable that is called `input` or a method that is called `compile` is no
offence, and an alias of `torch.compile` is one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from ..core.candidate import Candidate, Failure
from ..core.outcome import Outcome, Stage
from ..core.text.parsing import KERNEL_PRIVATES, parse, quietly
from ..core.verdict import StageResult, decide
from .scopes import Names, Scope, TooEntangled, is_own_object, literal_getattr
from .unordered_sets import find_uses_of_order

MAX_SOURCE_CHARACTERS = 200_000
MAX_COPIED_NODES = 1_000_000
"""CPython compiles a `finally` block once for each way out of its `try`, so nested ones double and a few lines of them
take minutes; so many nodes in all, copies included, take seconds."""

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
        "logging",
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

ALLOWED_OBJECTS = frozenset(["triton.runtime.driver"])
"""What may be imported from a module that may not: the object that is reached by attributes of `triton` as well."""

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
        "hash",
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
    [
        *("_getframe", "ag_code", "ag_frame", "cr_code", "cr_frame", "f_back", "f_builtins", "f_code", "f_globals"),
        *("f_locals", "gi_code", "gi_frame", "tb_frame"),
    ]
)
_RECORDER_ATTRIBUTES = frozenset(
    ["cache_info", "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic"]
)
"""What tells a recording from use, or one call from the next."""

FORBIDDEN_PATHS = frozenset(
    [
        "torch.classes",
        "torch.compile",
        "torch.cuda.CUDAGraph",
        "torch.cuda.Stream",
        "torch.cuda.graph",
        "torch.cuda.stream",
        "torch.distributed",
        "torch.from_file",
        "torch.fx",
        "torch.hub",
        "torch.jit",
        "torch.library",
        "torch.load",
        "torch.multiprocessing",
        "torch.ops",
        "torch.overrides",
        "torch.save",
        "torch.utils",
        "triton.backends",
        "triton.compiler",
        "triton.knobs",
        "triton.runtime.interpreter",
        "triton.runtime.jit",
        "triton.testing",
    ]
)
_OTHERS_MODULES = frozenset(
    [
        *("argparse", "ast", "atexit", "base64", "bisect", "builtins", "concurrent", "contextvars", "copy"),
        *("copymodule", "copyreg", "ctypes", "datetime", "difflib", "dis", "errno", "fnmatch", "gc"),
        *("glob", "gzip", "hashlib", "heapq", "importlib", "inspect", "io", "json", "keyword", "knobs"),
        *("linecache", "locale", "logging", "mp", "multiprocessing", "np", "os", "pathlib", "pickle"),
        *("pickletools", "pkgutil", "platform", "pprint", "python_multiprocessing", "queue", "random"),
        *("re", "reducer", "shutil", "signal", "socket", "string", "struct", "subprocess", "sys"),
        *("sysconfig", "tarfile", "tempfile", "textwrap", "threading", "time", "traceback", "types"),
        *("uuid", "weakref", "zipfile"),
    ]
)
"""Modules that allowed modules happen to import, as in `torch.os`, by the names that they have there."""
_OWN_MODULES = frozenset(["torch.cuda.random", "torch.random", "torch.signal", "torch.types"])
"""What only has the name of one of those."""
_NAMEDTUPLE_ATTRIBUTES = frozenset(["_asdict", "_fields", "_make", "_replace"])
_COMPILED_KERNEL_ATTRIBUTES = frozenset(["_init_handles"])
"""What host code calls on a kernel compiled ahead by `warmup`, before it asks for its registers."""
_PUBLIC_PRIVATES = _NAMEDTUPLE_ATTRIBUTES | _COMPILED_KERNEL_ATTRIBUTES | KERNEL_PRIVATES


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
        return Failure(Outcome.NO_CODE)
    if len(source) > MAX_SOURCE_CHARACTERS:
        return Failure(Outcome.SYNTAX_ERROR, f"longer than {MAX_SOURCE_CHARACTERS} characters")
    try:
        tree = parse(source)
        if any(getattr(node, "finalbody", None) for node in ast.walk(tree)) and count_compiled(tree) > MAX_COPIED_NODES:
            return Failure(Outcome.SYNTAX_ERROR, "finally blocks are nested too deeply")
        with quietly():
            compile(tree, "candidate.py", "exec", dont_inherit=True)  # some errors are found after parsing only
        return _inspect(tree)
    except SyntaxError as error:
        where = f"line {error.lineno}: " if error.lineno else ""
        return Failure(Outcome.SYNTAX_ERROR, f"{where}{error.msg}")
    except (RecursionError, MemoryError, TooEntangled):
        return Failure(Outcome.SYNTAX_ERROR, "nested too deeply")
    except (ValueError, OverflowError) as error:  # null bytes, lone surrogates, enormous literals
        return Failure(Outcome.SYNTAX_ERROR, str(error).splitlines()[0] if str(error) else "")


def count_compiled(tree: ast.AST) -> int:
    """Return how many nodes CPython compiles, those in copies of `finally` blocks included."""
    return _count_copied(tree)[0]


def _count_copied(node: ast.AST) -> tuple[int, int]:
    """Return how many nodes CPython compiles for one, and how many ways out of a block these hold."""
    num_nodes, num_exits = 1, int(isinstance(node, (ast.Return, ast.Break, ast.Continue)))
    last = getattr(node, "finalbody", [])
    copied = set(map(id, last))
    for part in ast.iter_child_nodes(node):
        if id(part) not in copied:
            nodes, exits = _count_copied(part)
            num_nodes, num_exits = num_nodes + nodes, num_exits + exits
    copies = 2 + num_exits
    for part in last:
        nodes, exits = _count_copied(part)
        num_nodes, num_exits = num_nodes + copies * nodes, num_exits + copies * exits
    return num_nodes, num_exits


def _inspect(tree: ast.Module) -> Failure | None:
    names = Names(tree)
    kernels = set(_kernel_names(names))
    forbidden = _find_forbidden_import(names)
    if forbidden is None:
        found = min(_forbidden_uses(names, kernels), default=None)
        if found is not None:
            forbidden = Failure(Outcome.FORBIDDEN_NAME, f"line {found[0]}: {found[1]}")
    return forbidden or _find_missing_form(tree, names, kernels)


def _is_allowed(module: str) -> bool:
    return module in ALLOWED_MODULES or module.startswith(_ALLOWED_BELOW)


def _find_forbidden_import(names: Names) -> Failure | None:
    for node in names.imports:
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif not node.level and all(f"{node.module}.{alias.name}" in ALLOWED_OBJECTS for alias in node.names):
            continue
        else:
            modules = ["." * node.level + (node.module or "")]
        for module in modules:
            if not _is_allowed(module):
                advice = "; a candidate has torch, triton, math and a few more (docs/host-code.md)"
                return Failure(Outcome.FORBIDDEN_IMPORT, f"line {node.lineno}: {module}{advice}")
    return None


def _forbidden_uses(names: Names, kernels: set[str]) -> Iterator[tuple[int, str]]:
    """Line and name of each use of something that candidates may not use."""
    for node in names.imports:
        if isinstance(node, ast.ImportFrom):
            paths = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from ((node.lineno, path) for path in paths if _is_forbidden_path(path))
    named = {id(part) for call, _ in names.calls if _is_get_logger(call) for part in call.args}
    named |= {id(node.left) for node in names.comparisons if _is_comparison_with_main(node)}
    for use, scope in names.uses:
        if use.id == "__name__" and id(use) not in named and _is_builtin(use.id, scope, names):
            yield use.lineno, "__name__, other than in logging.getLogger(__name__) or a comparison with '__main__'"
        if use.id in FORBIDDEN_BUILTINS and _is_builtin(use.id, scope, names):
            yield use.lineno, use.id
    yield from find_uses_of_order(names)
    for attribute, scope in names.attributes:
        found = _forbidden_attribute(attribute, scope, names, kernels)
        if found is not None:
            yield attribute.lineno, found
    for call, scope in names.calls:
        if isinstance(call.func, ast.Name) and call.func.id in ("getattr", "setattr", "delattr"):
            found = _forbidden_reflection(call.func.id, call, scope, names)
            if found is not None:
                yield call.lineno, found


def _is_get_logger(call: ast.Call) -> bool:
    return "getLogger" in (getattr(call.func, "attr", ""), getattr(call.func, "id", ""))


def _is_comparison_with_main(node: ast.Compare) -> bool:
    return len(node.comparators) == 1 and getattr(node.comparators[0], "value", None) == "__main__"


def _is_builtin(name: str, scope: Scope, names: Names) -> bool:
    """Whether a name of the list means the built-in: `eval = eval` at module level does not make it one's own."""
    found = scope.find(name)
    if found is None or found.hidden_from_inner:
        return True
    return found is names.module and name not in names.defined


def _forbidden_attribute(node: ast.Attribute, scope: Scope, names: Names, kernels: set[str]) -> str | None:
    attribute = node.attr
    if attribute.startswith("_"):
        if _is_dunder(attribute):
            if attribute not in ALLOWED_DUNDERS:
                return attribute
        elif not (is_own_object(node.value) or attribute in names.members or attribute in _PUBLIC_PRIVATES):
            return f"{attribute}, which is private to another object; use what it offers by public names"
    if attribute in _FRAME_ATTRIBUTES or attribute in _RECORDER_ATTRIBUTES:
        return attribute
    paths = names.resolve(node, scope)
    for path in sorted(paths):
        if _is_forbidden_path(path):
            return path
    if isinstance(node.ctx, ast.Load):
        return None
    if isinstance(node.value, ast.Name) and node.value.id in kernels:
        return f"assignment to {node.value.id}.{attribute}"
    for path in sorted(names.resolve(node.value, scope)):
        # rebinding what a library holds; numerical switches under torch.backends are no patch
        if not f"{path}.".startswith("torch.backends."):
            return f"assignment to {path}.{attribute}"
    return None


def _forbidden_reflection(function: str, call: ast.Call, scope: Scope, names: Names) -> str | None:
    """`getattr` and its kin are fine on `self`, and `getattr` with names that the text says anywhere."""
    if len(call.args) < 2:
        return function
    target, name = call.args[0], call.args[1]
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        if _is_dunder(name.value) or (name.value.startswith("_") and not is_own_object(target)):
            return f"{function} of {name.value}"
        if literal_getattr(call) is not None:
            return next(filter(_is_forbidden_path, sorted(names.resolve(call, scope))), None)
    if is_own_object(target):
        return None
    texts = names.find_texts(name, scope) if function == "getattr" else None
    if texts is None:
        return f"{function} with a computed name or a foreign object; write the names out"
    if private := next((text for text in sorted(texts) if text.startswith("_")), None):
        return f"{function} of {private}"
    paths = sorted(f"{path}.{text}" for path in names.resolve(target, scope) for text in texts)
    return next(filter(_is_forbidden_path, paths), None)


def _is_dunder(name: str) -> bool:
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


@lru_cache(maxsize=4096)
def _is_forbidden_path(path: str) -> bool:
    parts = path.split(".")
    # `torch.nn.functional.torch` is `torch` again
    parts = parts[max((at for at, part in enumerate(parts) if part in ("torch", "triton")), default=0) :]
    below = [(part, ".".join(parts[: at + 1])) for at, part in enumerate(parts) if at]
    if any(part in _OTHERS_MODULES and whole not in _OWN_MODULES for part, whole in below):
        return True
    if any(part in _RECORDER_ATTRIBUTES for part, _ in below):
        return True
    if parts[0] not in ("torch", "triton"):
        return False
    if any(part.startswith("_") and not _is_dunder(part) and part not in KERNEL_PRIVATES for part in parts[1:]):
        return True
    return any(whole in FORBIDDEN_PATHS for _, whole in below)


def _find_missing_form(tree: ast.Module, names: Names, kernels: set[str]) -> Failure | None:
    classes = {node.name: node for node in _top_level(tree.body) if isinstance(node, ast.ClassDef)}
    if "ModelNew" not in classes or not _has_forward(classes["ModelNew"], classes):
        return Failure(Outcome.NO_MODEL)
    if not kernels:
        return Failure(Outcome.NO_KERNEL)
    launches = any(_is_launch(call) for call, _ in names.calls)
    kept = (node.value for node in names.subscripts)  # `kernel[grid]`, to be called later
    if not launches and not any(isinstance(kernel, ast.Name) and kernel.id in kernels for kernel in kept):
        return Failure(Outcome.NO_LAUNCH, "a launch is written kernel[grid](...)")
    return None


def _is_launch(call: ast.Call) -> bool:
    """`kernel[grid](...)`, or what it calls: `kernel.run(..., grid=grid, warmup=False)`."""
    is_run = isinstance(call.func, ast.Attribute) and call.func.attr == "run"
    return isinstance(call.func, ast.Subscript) or (is_run and any(given.arg == "grid" for given in call.keywords))


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


def _is_jit(node: ast.expr, scope: Scope, names: Names) -> bool:
    if isinstance(node, ast.Call):
        node = node.func
    return "triton.jit" in names.resolve(node, scope)


def _kernel_names(names: Names) -> Iterator[str]:
    for function, scope in names.functions:
        if any(_is_jit(decorator, scope, names) for decorator in function.decorator_list):
            yield function.name
    for target, value, scope in names.assignments:
        if isinstance(target, ast.Name) and isinstance(value, ast.Call) and _is_jit(value, scope, names):
            yield target.id
