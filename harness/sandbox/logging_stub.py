"""The `logging` that candidates import: loggers that write nothing, go nowhere and remember nothing.

Host code of libraries logs, and no result depends on it. Python's own module would open files, and its loggers are
objects of the process in which a call could leave something for the next. Here levels, handlers and attributes can be
set, and stay as they are.
"""

from __future__ import annotations

import functools
import logging
from types import ModuleType
from typing import Any

_LEVELS = ("CRITICAL", "DEBUG", "ERROR", "FATAL", "INFO", "NOTSET", "WARN", "WARNING")
_LOUDEST_SILENT = logging.INFO


class _Fixed(type):
    """The class of classes without attributes of their own."""

    def __setattr__(cls, name: str, value: Any) -> None:
        """Leave everything as it is."""


class _Silent(metaclass=_Fixed):
    """Stands for loggers, handlers, formatters and filters."""

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
def make_logging() -> ModuleType:
    """Return the module."""
    module = ModuleType("logging", "Loggers that write nothing.")
    logger = _Silent()
    for name in _LEVELS:
        setattr(module, name, getattr(logging, name))
    for name in ("FileHandler", "Filter", "Formatter", "Handler", "Logger", "LoggerAdapter", "NullHandler"):
        setattr(module, name, _Silent)
    module.StreamHandler = _Silent  # type: ignore[attr-defined]
    module.getLogger = lambda name=None: logger  # type: ignore[attr-defined]
    module.getLevelName = logging.getLevelName  # type: ignore[attr-defined]
    for name in ("basicConfig", "captureWarnings", "critical", "debug", "disable", "error", "exception", "info"):
        setattr(module, name, _do_nothing)
    for name in ("log", "warn", "warning"):
        setattr(module, name, _do_nothing)
    return module
