"""Autotuned launches: which configuration a plan has, and what else a first call launches.

Autotuned kernels use the first configuration that compiles and fits the target's shared memory, since there is no
device to measure on; the choice is kept for the later recordings of the same process. Others are recorded where the
judge names them: one for each tuner and each of its keys, as a tuner measures anew for every key. Beside those that
pruning leaves at a call's sizes it may name what the tuner had with the same key at others, and would keep.
`reset_to_zero` and its kin act while Triton measures, and not in the launches after that, so they leave no step in such
a plan.

Triton measures on the arguments of the very call, when a key is met for the first time: every configuration that
pruning left, one alone too, is launched again and again between the hooks, then the hook resets, and then the quickest
one is launched for what is returned. Where the judge asks for the plan of such a call, the first pass is recorded so,
the launches of the configurations that it names once each, and the second pass as any later call is.

Settings of PyTorch by which libraries choose how a product is rounded (`allow_tf32`) are chosen as configurations are:
what forward does with either must be right.

On a GPU a launch returns the compiled kernel, always the same one for the same specialisation, and a kernel keeps those
that it has. Recorded, most launches compile nothing. So host code gets an object of the right class, which it may keep,
compare and ask for its truth; whoever looks into it, or into what a kernel keeps, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from attrs import define, frozen
from triton import testing
from triton.compiler import CompiledKernel
from triton.runtime import autotuner
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from ....core.candidate import SETTING, is_setting
from ....core.outcome import Outcome
from .host_state import Snapshot, find_changes
from .launches import LaunchRecorder
from .refusal import Refusal

_NEVER_CHOSEN = (Outcome.OUT_OF_RESOURCES, Outcome.COMPILE_FAILED)
_MEASURED = ("bench_time", "cache", "configs_timings")
"""What a tuner keeps of its measurements."""


@define
class _Unit:
    """A tuner with one of its keys; it prunes and measures once."""

    number: int
    configs: list[Any]
    is_measured: bool = False


class Tuners:
    """Chooses configurations for the tuners of a plan, in the order of their first use."""

    def __init__(self, recorder: LaunchRecorder) -> None:
        self._recorder = recorder
        self.choices: list[tuple[str, ...]] = []
        """The configurations that each tuner had in this plan."""
        self.has_measured = False
        """Whether any of them measured in the pass, which was asked to."""
        self._wanted: tuple[int, ...] = ()
        self._measured: tuple[int, ...] | None = None
        self._look: Callable[[], Snapshot] = dict
        self._units: dict[tuple[Any, ...], _Unit] = {}
        self._chosen: dict[int, int] = {}
        self._met: dict[tuple[Any, ...], list[Any]] = {}
        """The configurations that tuners had with each key, at whatever sizes."""

    def install(self) -> None:
        """Interpose for the rest of this process."""
        tuners = self

        def run(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            return tuners._run(tuner, args, kwargs)

        Autotuner.run = run
        for name in _MEASURED:
            setattr(Autotuner, name, property(_refuse_to_tell(name), lambda tuner, value: None))

    def begin(
        self,
        choice: tuple[int, ...] = (),
        measured: tuple[int, ...] | None = None,
        look: Callable[[], Snapshot] = dict,
    ) -> None:
        """Start a plan with chosen configurations or the first that do.

        With `measured`, each tuner measures, and the steps of that are kept for its chosen configuration and the one at
        this position; `look` says what the host code holds.
        """
        self._wanted, self._measured, self._look = choice, measured, look
        self._units = {}
        self.choices = []
        self.has_measured = False

    def forget(self) -> None:
        """Drop what the warm-up left."""
        self.begin()
        self._chosen.clear()
        self._met.clear()

    @property
    def has_tuned(self) -> bool:
        """Whether the plan has configurations of a tuner, beside settings."""
        return any(not is_setting(words) for words in self.choices)

    def choose_setting(self, name: str, values: Sequence[Any]) -> Any:
        """Return the value of a setting that host code reads: the judge's choice, or the first."""
        found = self._units.get(("setting", name))
        if found is None:
            found = self._units["setting", name] = _Unit(number=len(self._units), configs=list(values))
            self.choices.append(tuple(f"{SETTING}{name} is {value}" for value in values))
        wanted = self._wanted[found.number] if found.number < len(self._wanted) else 0
        return found.configs[wanted % len(found.configs)]

    def _run(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        _refuse_own_clock(tuner)
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        unit = self._unit(tuner, kwargs)
        configs = unit.configs
        wanted = self._wanted[unit.number] if unit.number < len(self._wanted) else None
        chosen = self._chosen.get(id(tuner)) if wanted is None else wanted % max(1, len(configs))
        if self._measured is not None and len(tuner.configs) > 1 and not unit.is_measured:
            self._measure(tuner, args, kwargs, unit, chosen or 0)
        if chosen is not None and chosen < len(configs):
            configs = [configs[chosen]]
        refusals = []
        for index, config in enumerate(configs):
            if conflicts := kwargs.keys() & config.kwargs.keys():
                raise ValueError(f"Conflicting meta-parameters: {', '.join(sorted(conflicts))}.")
            mark = len(self._recorder.steps)
            try:
                if config.pre_hook is not None:
                    config.pre_hook(_all_arguments(tuner, kwargs, config))
                result = tuner.fn.run(*args, **kwargs, **config.all_kwargs())
            except Refusal as refusal:
                if refusal.failure.outcome not in _NEVER_CHOSEN:
                    raise
                refusals.append(refusal)
                del self._recorder.steps[mark:]
                continue
            if self._recorder.compile and wanted is None:
                self._chosen.setdefault(id(tuner), index)
            tuner.best_config, tuner.nargs = config, None
            return result
        raise refusals[0]

    def _unit(self, tuner: Any, kwargs: dict[str, Any]) -> _Unit:
        """Return the tuner with this key: tuners measure once for each value of their key and the dtypes."""
        import torch

        values = {**tuner.nargs, **kwargs}
        key = [repr(values.get(name)) for name in tuner.keys if not isinstance(values.get(name), torch.Tensor)]
        key += [str(value.dtype) for value in values.values() if isinstance(value, torch.Tensor)]
        found = self._units.get((id(tuner), *key))
        if found is None:
            configs = list(tuner.prune_configs(kwargs)) if len(tuner.configs) > 1 else list(tuner.configs)
            met = self._met.setdefault((tuner, *key), [])
            met += [config for config in configs if config not in met]
            if self._wanted and self._measured is None:
                configs += [config for config in met if config not in configs]
            found = self._units[(id(tuner), *key)] = _Unit(number=len(self._units), configs=configs)
            self.choices.append(tuple(_describe_config(tuner, config) for config in configs))
        return found

    def _measure(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], unit: _Unit, chosen: int) -> None:
        """Do what Triton does before the launch that counts; a second round finds out what counts the launches."""
        assert self._measured is not None
        unit.is_measured = self.has_measured = True
        named = self._measured[unit.number] if unit.number < len(self._measured) else chosen
        kept = {chosen, named}
        for index, config in enumerate(unit.configs):
            self._try(tuner, args, kwargs, config, index in kept)
        before = self._look()
        for config in unit.configs:
            self._try(tuner, args, kwargs, config, False)
        changes = find_changes(before, self._look())
        if changes:
            message = f"what a tuner calls while it measures keeps count: {', '.join(changes[:3])}"
            raise Refusal(Outcome.NOT_REPRODUCIBLE, message[:300])
        if unit.configs:
            config = unit.configs[chosen % len(unit.configs)]
            tuner.pre_hook(_all_arguments(tuner, kwargs, config), reset_only=True)

    def _try(self, tuner: Any, args: tuple[Any, ...], kwargs: dict[str, Any], config: Any, is_kept: bool) -> None:
        full = _all_arguments(tuner, kwargs, config)
        steps, is_compiled = len(self._recorder.steps), self._recorder.compile
        self._recorder.compile = is_compiled and is_kept
        try:
            if config.pre_hook:
                config.pre_hook(full)
            tuner.pre_hook(full)
            tuner.fn.run(*args, **kwargs, **config.all_kwargs())
            tuner.post_hook(full, exception=None)
        except Refusal as refusal:
            if refusal.failure.outcome not in _NEVER_CHOSEN:
                raise
            tuner.post_hook(full, exception=refusal)
            is_kept = False
        finally:
            self._recorder.compile = is_compiled
        if not is_kept:
            del self._recorder.steps[steps:]


def _all_arguments(tuner: Any, kwargs: dict[str, Any], config: Any) -> dict[str, Any]:
    return {**tuner.nargs, **kwargs, **config.all_kwargs()}


def _refuse_own_clock(tuner: Any) -> None:
    """Refuse a tuner that measures by a function of the candidate's, which only a GPU would call."""
    home = getattr(tuner._do_bench, "__globals__", None)
    if tuner._do_bench is not None and home is not vars(autotuner) and home is not vars(testing):
        raise Refusal(
            Outcome.UNSUPPORTED, "a tuner with a do_bench of its own cannot be recorded; leave it to Triton's"
        )


def _refuse_to_tell(name: str) -> Callable[[Any], Any]:
    def tell(tuner: Any) -> Any:
        raise Refusal(Outcome.UNSUPPORTED, f"host code reads a tuner's {name}, which takes a GPU to know")

    return tell


def _describe_config(tuner: Any, config: Any) -> str:
    """Return a configuration in words that no other one of its tuner has."""
    parts = [f"{name}={value}" for name, value in config.all_kwargs().items()]
    if config.pre_hook is not None:
        parts.append(f"pre_hook {tuner.configs.index(config)}" if config in tuner.configs else "pre_hook")
    return ", ".join(parts)[:200]


_KEPT = "device_caches"
"""A kernel's compiled ones, by device."""


class LaunchValues:
    """Gives host code the objects that a recording's launches return."""

    def __init__(self, recorder: LaunchRecorder) -> None:
        self._recorder = recorder
        self._made: dict[tuple[Any, ...], Any] = {}
        self._is_compiling = False

    def install(self) -> None:
        """Interpose for the rest of this process; after the recorder, whose launches give nothing back."""
        values, launch = self, JITFunction.run

        def run(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            launch(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            given = values._give(kernel, args, kwargs)
            if warmup:
                _WARMED[id(given)] = _Warmed(recorder=values._recorder, kernel=kernel, args=args, kwargs=kwargs)
            return given

        JITFunction.run = run
        CompiledKernel._init_handles = _init_handles
        CompiledKernel.__getitem__ = _launch_warmed
        JITFunction.device_caches = property(self._get_kept, _keep)
        CompiledKernel.__getattr__ = _look_into
        self._recorder.compile_kernel = self._compiling(self._recorder.compile_kernel)

    def forget(self) -> None:
        """Drop what the warm-up left."""
        self._made.clear()
        _WARMED.clear()

    def _give(self, kernel: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        named = [*enumerate(args), *kwargs.items()]
        key = (id(kernel), *((name, _kind(value)) for name, value in named))
        return self._made.setdefault(key, object.__new__(CompiledKernel))

    def _compiling(self, compile_kernel: Callable[..., Any]) -> Callable[..., Any]:
        def compile_it(*args: Any, **kwargs: Any) -> Any:
            before, self._is_compiling = self._is_compiling, True
            try:
                return compile_kernel(*args, **kwargs)
            finally:
                self._is_compiling = before

        return compile_it

    def _get_kept(self, kernel: Any) -> Any:
        if not self._is_compiling:
            raise Refusal(Outcome.UNSUPPORTED, f"host code reads a kernel's {_KEPT}, which takes a GPU to know")
        return kernel.__dict__[_KEPT]


def _keep(kernel: Any, value: Any) -> None:
    kernel.__dict__[_KEPT] = value


def _kind(value: Any) -> str:
    """Return the part of an argument that a specialisation may depend on, roughly; Triton merges more values."""
    dtype = getattr(value, "dtype", None)
    return repr(value) if dtype is None else str(dtype)


@frozen(kw_only=True, eq=False)
class _Warmed:
    """A kernel that host code has compiled ahead by `warmup`: how, should it ask what the code takes."""

    recorder: LaunchRecorder
    kernel: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def find(self, name: str) -> Any:
        """Return the registers of a thread, or the compiler's facts about the code."""
        if name == "n_regs":
            return self.recorder.find_registers(self.kernel, self.args, self.kwargs)
        made = self.recorder.make(self.kernel, self.args, self.kwargs)
        known = ("shared", "num_warps", "num_ctas", "num_stages", "name")
        return SimpleNamespace(**{key: getattr(made.metadata, key) for key in known if hasattr(made.metadata, key)})

    def launch(self, grid: Any, args: tuple[Any, ...]) -> Any:
        """Launch it as it was compiled, with all arguments by position."""
        names = {parameter.name for parameter in self.kernel.params}
        options = {name: value for name, value in self.kwargs.items() if name not in names}
        return self.kernel.run(*args, grid=grid, warmup=False, **options)


_WARMED: dict[int, _Warmed] = {}
"""By the object that `warmup` returned, which `LaunchValues` keeps."""
_init_on_device, _launch_on_device = CompiledKernel._init_handles, CompiledKernel.__getitem__


def _init_handles(kernel: Any) -> None:
    if id(kernel) not in _WARMED:
        _init_on_device(kernel)


def _launch_warmed(kernel: Any, grid: Any) -> Any:
    warmed = _WARMED.get(id(kernel))
    return _launch_on_device(kernel, grid) if warmed is None else lambda *args: warmed.launch(grid, args)


def _look_into(kernel: Any, name: str) -> Any:
    """Refuse what a compiled kernel is asked for; one that was given for a launch has nothing."""
    if id(kernel) in _WARMED and name in ("metadata", "n_regs"):
        return _WARMED[id(kernel)].find(name)
    if kernel.__dict__:
        raise AttributeError(f"{type(kernel).__name__!r} object has no attribute {name!r}")
    raise Refusal(Outcome.UNSUPPORTED, f"host code asks for {name} of a launch's value, which cannot be recorded")
