"""Importing PyTorch without its compiler, in processes that seldom compile.

The first fake or meta tensor imports all of `torch._dynamo`, which takes nearly as long as torch itself, to read two
settings and to mark functions that Dynamo is to leave alone; and `symbolic_shapes`, with sympy, for two functions that
it seldom calls. `import_torch` leaves modules in their places that do just that, and become the real ones when
anything else of them is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

_DYNAMO = "torch._dynamo"
_SYMBOLS = "torch.fx.experimental.symbolic_shapes"
_LOADING = threading.RLock()


class _Lazy(ModuleType):
    """Stands for a module, with some of its functions; without `__path__`, so that importing a part loads it all."""

    def __init__(self, name: str, functions: Mapping[str, Callable[..., Any]], before_load: Callable[[], None]) -> None:
        super().__init__(name)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        vars(self).update(__spec__=spec, __loader__=spec.loader, __file__=spec.origin)
        vars(self).update(__package__=name if spec.submodule_search_locations else spec.parent)
        vars(self).update(functions, standing_in=tuple(functions), before_load=before_load)
        sys.modules[name] = self
        parent, _, child = name.rpartition(".")
        setattr(sys.modules[parent], child, self)

    def __getattr__(self, name: str) -> Any:
        with _LOADING:
            # whatever is imported from a module, it is asked whether it is a package
            is_wanted = self.__spec__.submodule_search_locations if name == "__path__" else name[:2] != "__"  # type: ignore[union-attr]
            if is_wanted and "standing_in" in vars(self):
                self._load()
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}") from None

    def _load(self) -> None:
        vars(self).pop("before_load")()
        for function in vars(self).pop("standing_in"):
            vars(self).pop(function, None)
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        if spec.submodule_search_locations:
            vars(self)["__path__"] = spec.submodule_search_locations
        spec.loader.exec_module(self)
        self.__class__ = ModuleType  # type: ignore[assignment]  # at last: other threads wait for the whole


def import_torch() -> None:
    """Import torch, and neither Dynamo, but for its settings, nor sympy, unless they are there already."""
    import torch.fx.experimental  # noqa: F401

    if _DYNAMO not in sys.modules:
        _put_off_dynamo()
    if _SYMBOLS not in sys.modules:
        _put_off_symbols()


def _put_off_dynamo() -> None:
    left_alone: list[Any] = []

    def disable(function: Any = None, recursive: bool = True, **options: Any) -> Any:
        """Return a function as it is, as long as there is no Dynamo; other calls than `torch._compile`'s load it."""
        if function is None or not recursive or options != {"wrapping": False}:
            del vars(lazy)["disable"]
            return lazy.disable(function, recursive, **options)
        left_alone.append(function)
        return function

    def let_go() -> None:
        for function in left_alone:
            delattr(function, "__dynamo_disable")  # where `torch._compile` keeps what `disable` returns

    lazy = _Lazy(_DYNAMO, {"disable": disable}, let_go)
    vars(lazy)["left_alone"] = left_alone
    vars(lazy)["__path__"] = lazy.__spec__.submodule_search_locations  # type: ignore[union-attr]
    importlib.import_module(f"{_DYNAMO}.config")
    del vars(lazy)["__path__"]


def _put_off_symbols() -> None:
    def stand_in_for(name: str) -> Callable[..., Any]:
        def stand_in(*given: Any, **named: Any) -> Any:
            vars(lazy).pop(name, None)
            return getattr(lazy, name)(*given, **named)

        return stand_in

    # what fake tensors import whatever they do
    names = ("compute_unbacked_bindings", "free_unbacked_symbols")
    lazy = _Lazy(_SYMBOLS, {name: stand_in_for(name) for name in names}, lambda: None)
