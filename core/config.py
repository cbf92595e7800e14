"""The one configuration tree: what a study fixes, checked before anything runs.

A typo must be an error at start, not an experiment. So an unknown key, a wrong type (2.9 for an integer, "false" for
a truth value) and a value out of range are each one line that names the key by its full path, whether they come from
TOML, from `--set KEY=VALUE`, or from Python. The defaults are the study's values; presets are TOML merged into them.

Two more choices are made here: which keys change results (`identity`), so that a cell is computed once however many
threads the machine has; and which pairs of keys must agree (`keep <= samples_per_task`, and so on).
"""

from __future__ import annotations

import difflib
import math
import tomllib
import typing
from collections.abc import Callable, Hashable, Mapping
from functools import cache
from typing import Any, Literal

from attrs import Attribute, evolve, field, fields, frozen, has

from . import serialisation
from .plan import Purity

TrainingSuite = Literal["corpus", "whole"]
Quantization = Literal["none", "8bit"]
Engine = Literal["own", "vllm"]
PolicyDtype = Literal["auto", "float32", "bfloat16"]
Schedule = Literal["step", "accuracy"]
Backend = Literal["auto", "interpret", "cuda"]
Clock = Literal["none", "simulated", "measured"]
Compiling = Literal["none", "default", "max-autotune"]


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one line that names the key."""


def _whole(default: int, low: int, high: int | None = None, *, identifies: bool = True) -> Any:
    """A field for an integer in [low, high]; `identifies` says whether its value can change a result."""
    return field(default=default, validator=_check_number(int, low, high), metadata={"identifies": identifies})


def _number(default: float, low: float, high: float = math.inf, *, open_low: bool = False) -> Any:
    """A field for a finite number in [low, high], or in (low, high] where `open_low`."""
    return field(default=default, converter=_integer_as_float, validator=_check_number(float, low, high, open_low))


def _check_choice(record: Any, attribute: Attribute[Any], value: object) -> None:
    """A validator: the value is one of the texts of the Literal that annotates the field."""
    allowed = typing.get_args(_kinds(record.__class__)[attribute.name])
    if type(value) is not str or value not in allowed:
        raise ConfigError(f"{attribute.name}: must be one of {', '.join(allowed)}, got {_shown(value)}")


def _text(default: str) -> Any:
    """A field for one line of text, which may be empty, and then identifies nothing, only where it is by default."""

    def check(_: Any, attribute: Attribute[Any], value: object) -> None:
        if type(value) is not str or (value or default) != value.strip() or not value.isprintable():
            raise ConfigError(f"{attribute.name}: expected one line of text, got {_shown(value)}")

    return field(default=default, validator=check, metadata={"identifies": True if default else "where it is set"})


def _integer_as_float(value: float) -> float:
    # an integer given for a number must have the same canonical JSON as that number
    return float(value) if type(value) is int and abs(value) < 2**53 else value


def _check_number(
    kind: type[int] | type[float], low: float, high: float | None, open_low: bool = False
) -> Callable[[Any, Attribute[Any], Any], None]:
    noun = "an integer" if kind is int else "a finite number"

    def check(_: Any, attribute: Attribute[Any], value: Any) -> None:
        if type(value) is not kind or not math.isfinite(value):
            raise ConfigError(f"{attribute.name}: expected {noun}, got {_shown(value)}")
        if value < low or (open_low and value == low):
            raise ConfigError(f"{attribute.name}: must be {'>' if open_low else '>='} {low:g}, got {value!r}")
        if high is not None and value > high:
            raise ConfigError(f"{attribute.name}: must be <= {high:g}, got {value!r}")

    return check


def _shown(value: object) -> str:
    # TOML's spelling, cut so that the message stays one readable line
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _require_at_most(record: Any, smaller: str, larger: str) -> None:
    low, high = getattr(record, smaller), getattr(record, larger)
    if low > high:
        raise ConfigError(f"{smaller}: must be <= {larger} ({high!r}), got {low!r}")


@frozen(kw_only=True)
class PolicyConfig:
    """The model: `name` is "nano" (shipped), or a Hugging Face model's name or folder; 0 threads = as torch likes."""

    name: str = _text("nano")
    quantization: Quantization = field(default="none", validator=_check_choice)
    engine: Engine = field(default="own", validator=_check_choice, metadata={"identifies": "where it is set"})
    """Who samples: this project's sampler, or vLLM, which is imported only then."""
    dtype: PolicyDtype = field(default="auto", validator=_check_choice)
    max_new_tokens: int = _whole(512, 1)
    threads: int = _whole(0, 0, 4096, identifies=False)


@frozen(kw_only=True)
class SftConfig:
    """Supervised fine-tuning with LoRA, once for a seed; 0 pairs = no SFT.

    `data` names pairs to draw from in place of teachers' (`harness.datasets.pairs`); they have no levels to share.
    """

    data: str = _text("")
    num_pairs: int = _whole(1000, 0)
    epochs: int = _whole(1, 1)
    learning_rate: float = _number(2e-4, 0.0, 1.0, open_low=True)
    batch_size: int = _whole(8, 1)
    level2_share: float = _number(0.5, 0.0, 1.0)
    lora_rank: int = _whole(16, 1)
    lora_alpha: int = _whole(32, 1)
    lora_dropout: float = _number(0.05, 0.0, 0.99)
    warmup_share: float = _number(0.03, 0.0, 1.0)


@frozen(kw_only=True)
class RlConfig:
    """Rounds of: sample, verify, reward, keep the best, fine-tune on them."""

    rounds: int = _whole(4, 1)
    tasks_per_round: int = _whole(10, 1)
    samples_per_task: int = _whole(10, 1)
    keep: int = _whole(3, 1)
    epochs: int = _whole(2, 1)
    learning_rate: float = _number(2e-4, 0.0, 1.0, open_low=True)
    batch_size: int = _whole(8, 1)
    temperature: float = _number(0.8, 0.0, 10.0)
    top_p: float = _number(1.0, 0.0, 1.0, open_low=True)

    def __attrs_post_init__(self) -> None:
        _require_at_most(self, "keep", "samples_per_task")


@frozen(kw_only=True)
class CurriculumConfig:
    """Shares of Level 2 tasks; `fixed_share` is for cells without extension C, the rest for cells with it."""

    fixed_share: float = _number(0.3, 0.0, 1.0)
    start_share: float = _number(0.1, 0.0, 1.0)
    end_share: float = _number(0.5, 0.0, 1.0)
    threshold: float = _number(0.40, 0.0, 1.0)
    window: int = _whole(5, 1)
    step: float = _number(0.05, 0.0, 1.0)
    schedule: Schedule = field(default="step", validator=_check_choice)

    def __attrs_post_init__(self) -> None:
        _require_at_most(self, "start_share", "end_share")


@frozen(kw_only=True)
class RewardConfig:
    """Speedups (reference time over candidate time) where the performance bonus starts, and where it is full.

    `uniform_alpha` is what a speedup of 1 is worth beside correctness in the control with the uniform reward.
    """

    speedup_floor: float = _number(0.5, 0.0, open_low=True)
    speedup_cap: float = _number(4.0, 0.0, open_low=True)
    uniform_alpha: float = _number(0.1, 0.0, 100.0)

    def __attrs_post_init__(self) -> None:
        _require_at_most(self, "speedup_floor", "speedup_cap")
        if self.speedup_floor == self.speedup_cap:
            raise ConfigError(f"speedup_floor: must be < speedup_cap, got {self.speedup_floor!r} for both")


@frozen(kw_only=True)
class VerifierConfig:
    """Where plans run and for which architecture they compile; `seed` draws the inputs of every verification.

    The seed is a secret of whoever verifies: a candidate whose author knows it could be right on those inputs alone.
    `tritonrl verify` draws one where none is named. A grid's is this one, so that it can resume and its verdicts stay
    the same: the default is public, so set it to a secret where a policy could have learnt from verdicts under it.

    `purity` says whether PyTorch operators may compute beside the kernels: "strict" refuses them, "lenient" runs them
    as part of the plan and counts them.
    """

    backend: Backend = field(default="auto", validator=_check_choice)
    target: str = _text("sm_90")
    seed: int = _whole(0, 0, 2**63 - 1)
    clock: Clock = field(default="none", validator=_check_choice)
    purity: Purity = field(default="strict", validator=_check_choice)


@frozen(kw_only=True)
class ClockConfig:
    """The timing protocol; the noise (coefficients of variation) and the GPU are the simulated clock's alone.

    The rest is the measured clock's. Before each replay `flush_mb` are written, more than the L2 cache holds; 0 leaves
    the cache as it is. A trial of what takes less than `short_us` is the mean of `replays`, since there the clock's own
    grain shows, and what is replayed lies in `placements` places in memory, drawn each time. `budget_s` bounds what the
    trials of one measurement take: of what is slower there are fewer, never less than five. A measurement whose A/A
    control differs from 1 by more than `control_tolerance` is repeated, `attempts` times in all. `torch_compile` is the
    mode in which the reference is compiled for the second figure.
    """

    gpu: str = _text("h200")
    single_cv: float = _number(0.15, 0.0, 2.0)
    calibrated_cv: float = _number(0.01, 0.0, 2.0)
    warmups: int = _whole(10, 0, 10_000)
    trials: int = _whole(50, 1, 10_000)
    trim: float = _number(0.1, 0.0, 0.49)
    replays: int = _whole(4, 1, 1000)
    short_us: float = _number(200.0, 0.0)
    placements: int = _whole(10, 1, 100)
    flush_mb: int = _whole(256, 0, 4096)
    budget_s: float = _number(5.0, 0.0, 600.0, open_low=True)
    control_tolerance: float = _number(0.02, 0.0, 1.0)
    attempts: int = _whole(3, 1, 20)
    torch_compile: Compiling = field(default="default", validator=_check_choice)


@frozen(kw_only=True)
class EvaluationConfig:
    """Held-out tasks and samples by which every cell is judged.

    `round_samples` are drawn of each after every round but the last as well, for what a cell had reached by then at a
    given cost; 0 = not at all. Training sees none of it.
    """

    level1_tasks: int = _whole(20, 0)
    level2_tasks: int = _whole(20, 0)
    samples_per_task: int = _whole(4, 1)
    round_samples: int = _whole(0, 0)
    temperature: float = _number(0.2, 0.0, 10.0)
    top_p: float = _number(1.0, 0.0, 1.0, open_low=True)

    def __attrs_post_init__(self) -> None:
        if self.level1_tasks + self.level2_tasks == 0:
            raise ConfigError("level1_tasks: must be >= 1 where level2_tasks is 0, got 0")


@frozen(kw_only=True)
class LimitsConfig:
    """What one sandboxed child may use; `output_mb` bounds what it prints (stdout and stderr), not its answer.

    An answer has a bound of its own, `harness.sandbox.zygote.MAX_ANSWER_BYTES`.
    """

    cpu_s: int = _whole(20, 1)
    wall_s: int = _whole(30, 1)
    memory_mb: int = _whole(4096, 64)
    file_mb: int = _whole(64, 1)
    processes: int = _whole(64, 1)
    output_mb: int = _whole(16, 1)


@frozen(kw_only=True)
class Config:
    """Everything a study fixes beside its cells; `seed` is the root that every random stream derives from."""

    seed: int = _whole(0, 0, 2**63 - 1)
    suite: TrainingSuite = field(default="corpus", validator=_check_choice)
    """Whose tasks are trained on and held out: `corpus` has the families that `nano` knows, `whole` has all."""
    against: str = _text("")
    """A suite that training shares no task with, up to names and constants, or `evaluation`
    (`harness.study.admission`)."""
    policy: PolicyConfig = field(factory=PolicyConfig)
    sft: SftConfig = field(factory=SftConfig)
    rl: RlConfig = field(factory=RlConfig)
    curriculum: CurriculumConfig = field(factory=CurriculumConfig)
    reward: RewardConfig = field(factory=RewardConfig)
    verifier: VerifierConfig = field(factory=VerifierConfig)
    clock: ClockConfig = field(factory=ClockConfig)
    evaluation: EvaluationConfig = field(factory=EvaluationConfig)
    limits: LimitsConfig = field(factory=LimitsConfig)


def parse_toml(text: str, base: Config | None = None) -> Config:
    """The base (the study's defaults) with the keys that a TOML document sets; raises ConfigError."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"not valid TOML: {str(error) or 'nested too deeply'}") from None
    return merge(table, base)


def merge(table: Mapping[str, Any], base: Config | None = None) -> Config:
    """The base with the keys that nested plain tables set, all checked together; raises ConfigError."""
    merged: Config = _merge_record(base if base is not None else Config(), table, "")
    return merged


def with_overrides(config: Config, overrides: Mapping[str, str]) -> Config:
    """The config with `{"rl.rounds": "3"}` applied at once; text is read as TOML, and bare words as text."""
    table: dict[str, Any] = {}
    for key, text in overrides.items():
        *sections, name = key.split(".")
        target = table
        for section in sections:
            target = target.setdefault(section, {})
            if not isinstance(target, dict):
                raise _unknown_key(Config, key, "")
        if name in target:
            raise ConfigError(f"{key}: set together with a key inside it")
        target[name] = _read_value(text)
    return merge(table, config)


def keys() -> tuple[str, ...]:
    """Every key's full path, in the order of the tree."""
    return tuple(_paths(Config, ""))


def identity(config: Config) -> dict[str, Any]:
    """The plain values of the keys that can change a result, and no others.

    Dropped: `policy.threads`, and keys that were added later (`policy.engine`, `sft.data`, `against`) while they have
    their default, as what was computed before had it. Kept although they often change nothing: the limits, because a
    candidate that runs out of them is rejected. Values that resolve on the machine ("auto", a folder as the policy's
    name) are kept as written; who identifies a cell adds what they resolved to.
    """
    plain: dict[str, Any] = _identifying(config)
    return plain


def fingerprint(config: Config) -> str:
    """SHA-256 of the canonical JSON of the identity."""
    return serialisation.fingerprint(identity(config))


@cache
def _kinds(cls: Hashable) -> dict[str, Any]:
    # Hashable, not type: mypy holds that a bare `type` may not be
    return typing.get_type_hints(cls)


def _paths(cls: Any, path: str) -> list[str]:
    found: list[str] = []
    for attribute in fields(cls):
        kind = _kinds(cls)[attribute.name]
        name = f"{path}{attribute.name}"
        found.extend(_paths(kind, f"{name}.") if has(kind) else [name])
    return found


def _identifying(record: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for attribute in fields(type(record)):
        value = getattr(record, attribute.name)
        if has(type(value)):
            plain[attribute.name] = _identifying(value)
        elif attribute.metadata.get("identifies", True) is True or (
            attribute.metadata["identifies"] and value != attribute.default
        ):
            plain[attribute.name] = value
    return plain


def _merge_record(base: Any, table: Mapping[str, Any], path: str) -> Any:
    kinds = _kinds(base.__class__)
    changes: dict[str, Any] = {}
    for key, value in table.items():
        if key not in kinds:
            raise _unknown_key(type(base), key, path)
        if has(kinds[key]):
            if not isinstance(value, Mapping):
                raise ConfigError(f"{path}{key}: expected a table of keys, got {_shown(value)}")
            changes[key] = _merge_record(getattr(base, key), value, f"{path}{key}.")
        else:
            changes[key] = value
    try:
        return evolve(base, **changes)
    except ConfigError as error:
        raise ConfigError(f"{path}{error}") from None


def _unknown_key(cls: Any, key: str, path: str) -> ConfigError:
    close = difflib.get_close_matches(key, list(_kinds(cls)), n=1)
    if not close:
        leaves = {full.rsplit(".", 1)[-1]: full for full in reversed(keys())}
        close = [leaves[leaf] for leaf in difflib.get_close_matches(key.rsplit(".", 1)[-1], list(leaves), n=1)]
    hint = f" (did you mean {close[0]}?)" if close else ""
    shown = key if key.strip() and key.isprintable() and len(key) <= 80 else _shown(key)
    return ConfigError(f"unknown key: {path}{shown}{hint}")


def _read_value(text: str) -> Any:
    try:
        table = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    return table["value"] if list(table) == ["value"] else text
