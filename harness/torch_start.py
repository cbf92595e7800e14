"""Importing PyTorch without its compiler, in processes that seldom compile.

The first fake or meta tensor imports all of `torch._dynamo`, which takes nearly as long as torch itself, to read two
settings and to mark functions that Dynamo is to leave alone. `import_torch` leaves a module in its place that does just
that, and becomes the real one when anything else of it is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

_NAME = "torch._dynamo"
_LOADING = threading.RLock()


class _Lazy(ModuleType):
    """Stands for `torch._dynamo`; without a `__path__`, so that importing another part of it loads the whole."""

    def __getattr__(self, name: str) -> Any:
        with _LOADING:
            if "left_alone" in vars(self):
                self._load()
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"module {_NAME!r} has no attribute {name!r}") from None

    def _disable(self, function: Any = None, recursive: bool = True, **options: Any) -> Any:
        """Return a function as it is, as long as there is no Dynamo; other calls than `torch._compile`'s load it."""
        if function is None or not recursive or options != {"wrapping": False}:
            del vars(self)["disable"]
            return self.disable(function, recursive, **options)
        vars(self)["left_alone"].append(function)
        return function

    def _load(self) -> None:
        for function in vars(self).pop("left_alone"):
            delattr(function, "__dynamo_disable")  # where `torch._compile` keeps what `disable` returns
        vars(self).pop("disable", None)
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        vars(self)["__path__"] = spec.submodule_search_locations
        spec.loader.exec_module(self)
        self.__class__ = ModuleType  # type: ignore[assignment]  # at last: other threads wait for the whole


def import_torch() -> None:
    """Import torch, and of `torch._dynamo` the settings alone, unless it is there already."""
    import torch

    if _NAME in sys.modules:
        return
    spec = importlib.util.find_spec(_NAME)
    assert spec is not None
    lazy = _Lazy(_NAME)
    vars(lazy).update(__spec__=spec, __loader__=spec.loader, __file__=spec.origin, __package__=_NAME)
    vars(lazy).update(__path__=spec.submodule_search_locations, left_alone=[], disable=lazy._disable)
    sys.modules[_NAME] = torch._dynamo = lazy
    importlib.import_module(f"{_NAME}.config")
    del vars(lazy)["__path__"]
