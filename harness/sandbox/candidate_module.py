"""A candidate's source as an imported module, its kernels by identity, and its exceptions as failures.

Triton reads the text of a kernel back from the file, so the source is written to the scratch folder; `exec` of a string
would make every genuine kernel fail.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import errno
import functools
import importlib.util
import inspect
import logging
import os
import re
import sys
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any, TypeVar

from ...core.candidate import Failure
from ...core.outcome import Outcome

Raised = TypeVar("Raised", bound=BaseException)
MODULE_NAME = "candidate"
_MAX_MESSAGE = 500
_LOG_LEVELS = ("CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTSET", "WARN", "WARNING")
_LOG_CLASSES = (
    *("FileHandler", "Filter", "Formatter", "Handler", "Logger", "LoggerAdapter", "NullHandler", "StreamHandler"),
)
_LOG_FUNCTIONS = (
    *("basicConfig", "captureWarnings", "critical", "debug", "disable", "error", "exception", "info", "log"),
    *("warn", "warning"),
)
_LOUDEST_SILENT = logging.INFO
_NO_NETWORK = (
    *(errno.ENONET, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL),
    *(errno.ECONNREFUSED, errno.ECONNRESET),
)


def import_candidate(source: str, scratch: str) -> ModuleType:
    """Return the source imported from a file in `scratch`; raises whatever the candidate raises."""
    path = os.path.join(scratch, f"{MODULE_NAME}.py")
    with open(path, "w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
        file.write("\ufeff" + source)  # a byte order mark, so that no coding cookie makes another text of it
    spec = importlib.util.spec_from_file_location(MODULE_NAME, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE_NAME] = module
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _import}
    spec.loader.exec_module(module)
    return module


def _import(name: str, *arguments: Any, **options: Any) -> Any:
    return _make_logging() if name == "logging" else builtins.__import__(name, *arguments, **options)


def read_text(kernel: Any) -> str:
    """Return a jit function's text in the source, decorators included."""
    return textwrap.dedent(inspect.getsource(kernel.fn))


@contextlib.contextmanager
def named_by_its_text(kernel: Any) -> Iterator[None]:
    """Leave a kernel's `repr` out, a host function that names the compiled symbol: code is compared by its bytes."""
    given, kernel._repr = kernel._repr, None
    try:
        yield
    finally:
        kernel._repr = given


def find_disguise(kernel: Any, text: str) -> str | None:
    """Return the name of a function whose text as Triton compiles it is not the source's.

    It is the kernel, whose text in the source is given, or what that refers to.

    Host code can exchange a function's parts after decoration, and Triton finds the head of a kernel by a search that a
    string among the decorators misleads. What is run and what is compiled would then be two programs.
    """
    pending, seen = [(kernel, text)], set()
    while pending:
        function, text = pending.pop()
        if id(function) in seen:
            continue
        seen.add(id(function))
        if not _is_compiled_from(function.src, text):
            return str(function.fn.__qualname__)
        used = (function.fn.__globals__.get(name) for name in function.fn.__code__.co_names)
        pending += [(value, read_text(value)) for value in used if type(value) is type(kernel)]
    return None


def _is_compiled_from(compiled: str, text: str) -> bool:
    tree = ast.parse(text)
    written = tree.body[0]
    if isinstance(written, ast.FunctionDef):
        if len(tree.body) == 1 and compiled == text.split("\n", written.lineno - 1)[-1]:
            return True  # the same from `def` on, which means the same
        written.decorator_list = []
    body = ast.parse(compiled).body
    return len(body) == 1 and ast.dump(body[0]) == ast.dump(written)


def describe(error: BaseException, default: Outcome) -> Failure:
    """Return the outcome and one line for an exception that the candidate let escape."""
    outcome = default
    link: BaseException | None = error
    while link is not None:
        found = _classify(link)
        if found is not None:
            outcome = found
            break
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return Failure(outcome, message_of(error))


def find_cause(error: BaseException | None, kind: type[Raised]) -> Raised | None:
    """Return the exception of that kind that an error is, or comes from.

    What is raised again may come from itself.
    """
    seen: set[int] = set()
    while error is not None and not isinstance(error, kind):
        seen.add(id(error))
        error = error.__cause__ or error.__context__
        if id(error) in seen:
            return None
    return error


def message_of(error: BaseException) -> str:
    """Return the exception's type and text in one line."""
    text = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
    return f"{type(error).__name__}: {text}"[:_MAX_MESSAGE] if text else type(error).__name__


def _classify(error: BaseException) -> Outcome | None:
    text = str(error)
    if isinstance(error, MemoryError) or re.search(r"can't allocate memory|out of memory|not enough memory", text):
        return Outcome.MEMORY_LIMIT
    if "can't start new thread" in text:
        return Outcome.PROCESS_LIMIT
    if isinstance(error, OSError):
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) and error.filename is not None:
            return Outcome.FILE_ACCESS
        if error.errno in _NO_NETWORK or type(error).__name__ == "gaierror":
            return Outcome.NETWORK_ACCESS
        if error.errno in (errno.EFBIG, errno.ENOSPC, errno.EDQUOT):
            return Outcome.OUTPUT_LIMIT
        if error.errno == errno.EAGAIN:
            return Outcome.PROCESS_LIMIT
        if error.errno == errno.ENOMEM:
            return Outcome.MEMORY_LIMIT
    return None


class _Fixed(type):
    """The class of classes without attributes of their own."""

    def __setattr__(cls, name: str, value: Any) -> None:
        """Leave everything as it is."""


class _Silent(metaclass=_Fixed):
    """Stands for loggers, handlers, formatters and filters: it writes nothing, goes nowhere and remembers nothing."""

    __slots__ = ()
    level = logging.NOTSET
    disabled = False
    propagate = True

    def __init__(self, *_: Any, **__: Any) -> None:
        """Take what the logger or handler would take."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Leave everything as it is."""

    def __getattr__(self, name: str) -> Any:
        """Return a method that does nothing; raises AttributeError for what no logger has."""
        if name.startswith("_") or not (hasattr(logging.Logger, name) or hasattr(logging.Handler, name)):
            raise AttributeError(name)
        return _do_nothing

    @property
    def handlers(self) -> list[Any]:
        """Return none."""
        return []

    def getChild(self, suffix: str) -> Any:
        """Return the same again."""
        return self

    def getEffectiveLevel(self) -> int:
        """Return the level that a process has where nobody sets one."""
        return logging.WARNING

    def isEnabledFor(self, level: int) -> bool:
        """Return whether such a process would print a message."""
        return level > _LOUDEST_SILENT

    def hasHandlers(self) -> bool:
        """Return false, as before anyone adds one."""
        return False


def _do_nothing(*_: Any, **__: Any) -> None:
    return None


@functools.cache
def _make_logging() -> ModuleType:
    """Return the `logging` that candidates import: levels, handlers and attributes can be set, and stay as they are.

    Host code of libraries logs, and no result depends on it. Python's own module would open files, and its loggers are
    objects of the process in which a call could leave something for the next.
    """
    module = ModuleType("logging", "Loggers that write nothing.")
    logger = _Silent()
    vars(module).update({name: getattr(logging, name) for name in (*_LOG_LEVELS, "getLevelName")})
    vars(module).update(dict.fromkeys(_LOG_CLASSES, _Silent) | dict.fromkeys(_LOG_FUNCTIONS, _do_nothing))
    vars(module)["getLogger"] = lambda name=None: logger
    return module
