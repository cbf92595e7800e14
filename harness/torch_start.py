"""Importing PyTorch without its compiler, in processes that seldom compile.

The first fake or meta tensor imports all of `torch._dynamo`, which takes nearly as long as torch itself, to read two
settings and to mark functions that Dynamo is to leave alone; and `symbolic_shapes`, with sympy, to ask whether what it
knows is known. `import_torch` leaves modules in their places that do just that, and become the real ones when anything
else of them is asked for; all but the first in processes of ours alone.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

_DYNAMO = "torch._dynamo"
_SOURCES = f"{_DYNAMO}.source"
_SYMBOLS = "torch.fx.experimental.symbolic_shapes"
_DISTRIBUTED = "torch.distributed.tensor"
_LOADING = threading.RLock()
_SELDOM_CALLED = ("_iterate_nodes", "compute_unbacked_bindings", "free_unbacked_symbols", "guarding_hint_or_throw")
"""What tensors without values import of `symbolic_shapes` whatever they do."""
_GUARDS = ("expect_true", "guard_or_false", "guard_or_true", "guard_size_oblivious", "statically_known_true")
_WITHOUT_SYMBOLS: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(_GUARDS, lambda condition, *_: condition),
    "_iterate_exprs": lambda _: (),
    "has_free_symbols": lambda _: False,
    "has_free_unbacked_symbols": lambda _: False,
    **dict.fromkeys(("has_guarding_hint", "has_hint"), lambda _: True),
    **dict.fromkeys(("is_nested_int", "is_symbolic"), lambda _: False),
    "size_hint": lambda size: size,
    "sym_and": lambda *conditions: all(conditions),
    "sym_eq": lambda one, other: one == other or (type(one) is not int and list(one) == list(other)),
    "sym_or": lambda *conditions: any(conditions),
}
"""What others return for known conditions and sizes, and for tensors of such sizes; each PyTorch has most of them."""


def _is_known(value: Any) -> bool:
    if hasattr(value, "_has_symbolic_sizes_strides"):
        return not value._has_symbolic_sizes_strides
    numbers = value if isinstance(value, (tuple, list)) else (value,)
    return all(type(each) in (bool, int) for each in numbers)


class _Lazy(ModuleType):
    """Stands for a module, with some of its functions; without `__path__`, so that importing a part loads it all."""

    def __init__(
        self, name: str, functions: Mapping[str, Callable[..., Any]], before_load: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(name)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        vars(self).update(__spec__=spec, __loader__=spec.loader, __file__=spec.origin)
        vars(self).update(__package__=name if spec.submodule_search_locations else spec.parent)
        vars(self).update(functions, standing_in=tuple(functions), before_load=before_load)
        sys.modules[name] = self
        parent, _, child = name.rpartition(".")
        if parent:
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


def import_torch(is_own: bool = False) -> None:
    """Import torch, and not Dynamo, but for its settings, unless it is there already.

    `is_own`: nor sympy. No size of this process will ever be a symbol, and no tensor distributed. Torch asks for the
    classes of those that are, and keeps what it is told, so that a user's program has to have the real ones.
    """
    is_collecting = gc.isenabled()
    gc.disable()  # what modules make is there to stay, and walking it takes a fifth of the time
    import torch.fx.experimental  # noqa: F401

    if is_collecting:
        gc.enable()
    if _DYNAMO not in sys.modules:
        _put_off_dynamo()
    if not is_own:
        return
    gc.freeze()
    if isinstance(sys.modules[_DYNAMO], _Lazy) and _SOURCES not in sys.modules:
        _put_off_sources()
    if _SYMBOLS not in sys.modules:
        _put_off_symbols()
    if "sympy" not in sys.modules:
        _Lazy("sympy", {"Basic": type("_NoSymbol", (), {})})
        _Lazy("torch.utils._sympy.functions", {"Max": max})
    if _DISTRIBUTED not in sys.modules:
        _Lazy(_DISTRIBUTED, {"DTensor": type("_NoTensor", (), {})})


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
        if isinstance(sys.modules.get(_SOURCES), _Lazy):
            del sys.modules[_SOURCES]

    lazy = _Lazy(_DYNAMO, {"disable": disable}, let_go)
    vars(lazy)["left_alone"] = left_alone
    with _searching(lazy):
        importlib.import_module(f"{_DYNAMO}.config")


@contextlib.contextmanager
def _searching(lazy: ModuleType) -> Iterator[None]:
    """Let parts of a package be found that is not loaded."""
    assert lazy.__spec__ is not None
    vars(lazy)["__path__"] = lazy.__spec__.submodule_search_locations
    yield
    del vars(lazy)["__path__"]


def _put_off_sources() -> None:
    """Say nothing of where a tensor is from that becomes one without values: nobody asks where no size is a symbol."""
    unknown = type("_Unknown", (), {"__init__": lambda *_: None})
    with _searching(sys.modules[_DYNAMO]):
        _Lazy(_SOURCES, dict.fromkeys(("AttrSource", "ConstantSource", "RandomValueSource"), unknown))


def _put_off_symbols() -> None:
    def stand_in_for(name: str) -> Callable[..., Any]:
        answer = _WITHOUT_SYMBOLS.get(name)

        def stand_in(*given: Any, **named: Any) -> Any:
            if answer is not None and not named and all(_is_known(each) for each in given):
                return answer(*given)
            vars(lazy).pop(name, None)
            return getattr(lazy, name)(*given, **named)

        return stand_in

    functions = {name: stand_in_for(name) for name in (*_SELDOM_CALLED, *_WITHOUT_SYMBOLS)}
    lazy = _Lazy(_SYMBOLS, functions | {"GuardOnDataDependentSymNode": type("_NeverRaised", (Exception,), {})})
