"""The one configuration tree: what a study fixes, checked before anything runs.

A typo must be an error at start, not an experiment. So an unknown key, a wrong type (2.9 for an integer, "false" for
a truth value) and a value out of range are each one line that names the key by its full path, whether they come from
TOML, from `--set KEY=VALUE`, or from Python. The defaults are the study's values; presets are TOML merged into them.

Here is also said which keys change results (`identity`), so that a cell is computed once however many threads the
machine has, and which pairs of keys must agree (`keep <= samples_per_task`, and so on). How fields check their values
and how tables are merged into records is `config_fields`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, Literal

from attrs import field, frozen

from .config_fields import (
    WHERE_SET,
    boolean,
    check_choice,
    check_record,
    integer,
    merge_record,
    read_value,
    real,
    text,
    unknown_key,
)
from .config_fields import ConfigError as ConfigError
from .config_fields import identity as identity
from .plan import Purity

TrainingSuite = Literal["core13", "full", "extended", "field", "open", "long"]
Quantization = Literal["none", "8bit"]
Engine = Literal["own", "vllm"]
PolicyDtype = Literal["auto", "float32", "bfloat16"]
SftMethod = Literal["lora", "full"]
Algorithm = Literal["best-of-n", "rloo", "grpo", "dr-grpo"]
Schedule = Literal["step", "accuracy"]
FamilyDraws = Literal["turns", "success"]
Goal = Literal["graded", "correctness", "speed"]
Backend = Literal["auto", "interpret", "cuda"]
TimingMode = Literal["none", "simulated", "measured"]
Compiling = Literal["none", "default", "max-autotune"]


def _require_at_most(record: Any, smaller: str, larger: str) -> None:
    low, high = getattr(record, smaller), getattr(record, larger)
    if low > high:
        raise ConfigError(f"{smaller}: must be <= {larger} ({high!r}), got {low!r}")


@frozen(kw_only=True)
class PolicyConfig:
    """The model: `name` is "nano" (shipped), or a Hugging Face model's name or folder; 0 threads = as torch likes.

    `openai:MODEL@URL` is a model behind an OpenAI-compatible API, which can be sampled and not trained; `requests` are
    under way there at once. `gpu_memory` is the part of a GPU's memory that the process keeps to, where several runs
    share one, and executors keep to as much again; microbatches are as large as that has room for.
    """

    name: str = text("nano")
    quantization: Quantization = field(default="none", validator=check_choice)
    engine: Engine = field(default="own", validator=check_choice, metadata=WHERE_SET)
    """Who samples: this project's sampler, or vLLM, which is imported only then."""
    dtype: PolicyDtype = field(default="auto", validator=check_choice)
    max_new_tokens: int = integer(512, 1)
    threads: int = integer(0, 0, 4096, in_fingerprint=False)
    requests: int = integer(16, 1, 4096, in_fingerprint=False)
    gpu_memory: float = real(1.0, 0.0, 1.0, open_low=True, in_fingerprint=False)


@frozen(kw_only=True)
class SftConfig:
    """Supervised fine-tuning, once for a seed; 0 pairs = no SFT.

    `method` trains a LoRA adapter or all weights, which want a tenth of an adapter's learning rate; RL goes on by LoRA.
    `data` names pairs to draw from in place of teachers' (`harness.datasets.pairs`); they have no levels to share.
    Level 1 has what the shares of Levels 2 and 3 leave. `draw_launches` draws block sizes and warps of teachers'
    launches at random (`corpus.launches`), so that reinforcement learning for speed has something to choose from.
    """

    method: SftMethod = field(default="lora", validator=check_choice, metadata=WHERE_SET)
    data: str = text("")
    num_pairs: int = integer(1000, 0)
    epochs: int = integer(1, 1)
    learning_rate: float = real(2e-4, 0.0, 1.0, open_low=True)
    batch_size: int = integer(8, 1)
    level2_share: float = real(0.5, 0.0, 1.0)
    level3_share: float = real(0.0, 0.0, 1.0, in_fingerprint="where it is set")
    draw_launches: bool = boolean(False)
    lora_rank: int = integer(16, 1)
    lora_alpha: int = integer(32, 1)
    lora_dropout: float = real(0.05, 0.0, 0.99)
    warmup_share: float = real(0.03, 0.0, 1.0)

    def __attrs_post_init__(self) -> None:
        if self.level2_share + self.level3_share > 1.0:
            raise ConfigError(f"level3_share: must be <= 1 - level2_share, got {self.level3_share!r}")
        if self.draw_launches and self.data:
            raise ConfigError("draw_launches: launches are drawn of teachers' solutions, and data names others")


@frozen(kw_only=True)
class RlConfig:
    """Rounds of: sample, verify, reward, learn.

    `algorithm`: `best-of-n` keeps the best `keep` of a task and fine-tunes on them, with `epochs`, `batch_size` and a
    new optimizer each round. The others are policy gradients (`recipe.advantages`): `minibatches` steps a round on all
    finished answers of groups that are used, at a constant rate after `warmup_steps`, the optimizer's moments kept over
    rounds and dropout off; `clip_low` and `clip_high` bound the ratio of probabilities to [1 - low, 1 + high], and
    `kl_coefficient` weighs the divergence from the start. An advantage below 0 counts `negative_weight`, others 1.
    `skip_solved` leaves out groups that are all right, in any algorithm; where they stay, each of their answers weighs
    `solved_weight` in a policy gradient, beside what compares them.

    `timed`: whether training times what is right, where timing is on. `audit`: whether the audit judges training
    samples too; the first `audited_samples` of each task then, 0 = all of them. A task's samples differ in their random
    streams alone, so that rates over the first ones are those over all, with wider intervals.
    """

    algorithm: Algorithm = field(default="best-of-n", validator=check_choice, metadata=WHERE_SET)
    rounds: int = integer(4, 1)
    tasks_per_round: int = integer(10, 1)
    samples_per_task: int = integer(10, 1)
    audit: bool = boolean(True)
    audited_samples: int = integer(0, 0, in_fingerprint="where it is set")
    timed: bool = boolean(True)
    skip_solved: bool = boolean(False)
    keep: int = integer(3, 1)
    epochs: int = integer(2, 1)
    learning_rate: float = real(2e-4, 0.0, 1.0, open_low=True)
    batch_size: int = integer(8, 1)
    temperature: float = real(0.8, 0.0, 10.0)
    top_p: float = real(1.0, 0.0, 1.0, open_low=True)
    minibatches: int = integer(1, 1, in_fingerprint="where it is set")
    warmup_steps: int = integer(4, 0, in_fingerprint="where it is set")
    clip_low: float = real(0.2, 0.0, 1.0, in_fingerprint="where it is set")
    clip_high: float = real(0.28, 0.0, in_fingerprint="where it is set")
    kl_coefficient: float = real(0.0, 0.0, in_fingerprint="where it is set")
    negative_weight: float = real(1.0, 0.0, 1.0, in_fingerprint="where it is set")
    solved_weight: float = real(0.0, 0.0, 1.0, in_fingerprint="where it is set")

    def __attrs_post_init__(self) -> None:
        if self.solved_weight > 0.0 and self.skip_solved:
            raise ConfigError("solved_weight: groups that are all right are left out where skip_solved is true")
        if self.algorithm == "best-of-n":
            _require_at_most(self, "keep", "samples_per_task")
            return
        # else what was drawn has another probability than what is computed for it
        if self.top_p != 1.0:
            raise ConfigError(f"top_p: must be 1 where algorithm is {self.algorithm}, got {self.top_p!r}")
        if self.temperature == 0.0:
            raise ConfigError(f"temperature: must be > 0 where algorithm is {self.algorithm}, got 0.0")


@frozen(kw_only=True)
class CurriculumConfig:
    """Shares of Level 2 tasks; `fixed_share` is for cells without extension C, the rest for cells with it.

    `families`, in any cell: they take turns, or each is drawn by the success at it so far, most where half is right;
    `family_floor` is the least that one weighs then, beside 1 for the most.

    `rehearsal_share` of a round's tasks are of the suite that a supervised start has its pairs of, where the
    configuration's has no teachers: what the start can do stays in what is rewarded.
    """

    fixed_share: float = real(0.3, 0.0, 1.0)
    start_share: float = real(0.1, 0.0, 1.0)
    end_share: float = real(0.5, 0.0, 1.0)
    threshold: float = real(0.40, 0.0, 1.0)
    window: int = integer(5, 1)
    step: float = real(0.05, 0.0, 1.0)
    schedule: Schedule = field(default="step", validator=check_choice)
    families: FamilyDraws = field(default="turns", validator=check_choice, metadata=WHERE_SET)
    family_floor: float = real(0.1, 0.0, 1.0, open_low=True, in_fingerprint="where it is set")
    rehearsal_share: float = real(0.0, 0.0, 1.0, in_fingerprint="where it is set")

    def __attrs_post_init__(self) -> None:
        _require_at_most(self, "start_share", "end_share")


@frozen(kw_only=True)
class RewardConfig:
    """Speedups (reference time over candidate time) where the performance bonus starts, and where it is full.

    `uniform_alpha` is what a speedup of 1 is worth beside correctness in the control with the uniform reward.

    `goal`: what a cell's extensions say ("graded"); correctness alone, which needs no timing; or speed, which is
    correctness alone in the first `speed_after` rounds, and then as much again for the speedup of what is right.
    """

    speedup_floor: float = real(0.5, 0.0, open_low=True)
    speedup_cap: float = real(4.0, 0.0, open_low=True)
    uniform_alpha: float = real(0.1, 0.0, 100.0)
    goal: Goal = field(default="graded", validator=check_choice, metadata=WHERE_SET)
    speed_after: int = integer(0, 0, in_fingerprint="where it is set")

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

    `cross_check_interpreter`: whether the audit has what a GPU accepts interpreted at small sizes too, and refuses what
    that refuses. Without, the two backends can be compared, and what only the interpreter sees is accepted on a GPU.

    `oracle_cache_mb` of what references return are kept for later candidates, on the processors and for a GPU each;
    0 = as much as suits most machines. A run that evaluates many models by the same tasks wants room for all of them.

    `memory_mb` is the host's memory that runs at large sizes may use together, each of which asks before it begins; 0 =
    40% of the machine's, 32 GB at most.
    """

    backend: Backend = field(default="auto", validator=check_choice)
    target: str = text("sm_90")
    seed: int = integer(0, 0, 2**63 - 1)
    timing: TimingMode = field(default="none", validator=check_choice)
    purity: Purity = field(default="strict", validator=check_choice)
    cross_check_interpreter: bool = boolean(True)
    oracle_cache_mb: int = integer(0, 0, in_fingerprint=False)
    memory_mb: int = integer(0, 0, in_fingerprint=False)


@frozen(kw_only=True)
class TimingConfig:
    """The timing protocol; noise (coefficients of variation) and `gpu` are used by simulated timing alone.

    The rest is for measured timing. `flush_mb` are written before each replay, more than the L2 cache holds; 0 leaves
    the cache as it is. A trial of what takes less than `short_us` is the mean of `replays`, since there the grain of
    the device's events shows. What takes less than 60 us is timed on `buffer_copies` copies of its buffers, code and
    graph, since it shows where they lie; what takes longer on a quarter of them. `budget_s` bounds what the trials of
    one measurement take: of what is slower there are fewer, never less than five. A measurement whose A/A control
    differs from 1 by more than `control_tolerance` is repeated, `attempts` times in all. `torch_compile` is the mode in
    which the reference is compiled for the second figure.
    """

    gpu: str = text("h200")
    single_cv: float = real(0.15, 0.0, 2.0)
    calibrated_cv: float = real(0.01, 0.0, 2.0)
    warmups: int = integer(10, 0, 10_000)
    trials: int = integer(50, 1, 10_000)
    trim: float = real(0.1, 0.0, 0.49)
    replays: int = integer(4, 1, 1000)
    short_us: float = real(200.0, 0.0)
    buffer_copies: int = integer(40, 1, 200)
    flush_mb: int = integer(256, 0, 4096)
    budget_s: float = real(5.0, 0.0, 600.0, open_low=True)
    control_tolerance: float = real(0.02, 0.0, 1.0)
    attempts: int = integer(3, 1, 20)
    torch_compile: Compiling = field(default="default", validator=check_choice)


@frozen(kw_only=True)
class EvaluationConfig:
    """Held-out tasks and samples by which every cell is judged.

    `round_samples` are drawn of each after every `evaluate_every`-th round but the last as well, for what a cell had
    reached by then at a given cost; 0 = not at all. Training sees none of it.
    """

    level1_tasks: int = integer(20, 0)
    level2_tasks: int = integer(20, 0)
    samples_per_task: int = integer(4, 1)
    round_samples: int = integer(0, 0)
    evaluate_every: int = integer(1, 1, in_fingerprint="where it is set")
    temperature: float = real(0.2, 0.0, 10.0)
    top_p: float = real(1.0, 0.0, 1.0, open_low=True)

    def __attrs_post_init__(self) -> None:
        if self.level1_tasks + self.level2_tasks == 0:
            raise ConfigError("level1_tasks: must be >= 1 where level2_tasks is 0, got 0")


@frozen(kw_only=True)
class LimitsConfig:
    """What one sandboxed child may use; `output_mb` bounds what it prints (stdout and stderr), not its answer.

    An answer has a bound of its own, `harness.sandbox.zygote.MAX_ANSWER_BYTES`. Seconds that a child waits for a
    processor do not count in `wall_s`, up to three times as many as that. Where programs that are interpreted at large
    sizes take too long, at the variants "larger" and "remainder" among others, they get six times as many of `cpu_s`
    and `wall_s`.
    """

    cpu_s: int = integer(20, 1)
    wall_s: int = integer(30, 1)
    memory_mb: int = integer(4096, 64)
    file_mb: int = integer(64, 1)
    processes: int = integer(64, 1)
    output_mb: int = integer(16, 1)


@frozen(kw_only=True)
class Config:
    """Everything a study fixes beside its cells; `seed` is the root that every random stream derives from."""

    seed: int = integer(0, 0, 2**63 - 1)
    suite: TrainingSuite = field(default="core13", validator=check_choice)
    """Whose tasks are trained on and held out: `core13` has the first 13 families, `full` the 52
    that models were trained on, `extended` all, `field` these and more in dialects. `open` has no teachers: its
    supervised start trains on `field`."""
    against: str = text("")
    """A suite that training shares no task with, up to names and constants, or `evaluation`
    (`harness.study.contamination`)."""
    policy: PolicyConfig = field(factory=PolicyConfig, validator=check_record)
    sft: SftConfig = field(factory=SftConfig, validator=check_record)
    rl: RlConfig = field(factory=RlConfig, validator=check_record)
    curriculum: CurriculumConfig = field(factory=CurriculumConfig, validator=check_record)
    reward: RewardConfig = field(factory=RewardConfig, validator=check_record)
    verifier: VerifierConfig = field(factory=VerifierConfig, validator=check_record)
    timing: TimingConfig = field(factory=TimingConfig, validator=check_record)
    evaluation: EvaluationConfig = field(factory=EvaluationConfig, validator=check_record)
    limits: LimitsConfig = field(factory=LimitsConfig, validator=check_record)

    def __attrs_post_init__(self) -> None:
        if self.reward.goal == "speed" and (self.verifier.timing == "none" or not self.rl.timed):
            raise ConfigError("reward.goal: speed needs verifier.timing = simulated or measured, and rl.timed")


def parse_toml(text: str, base: Config | None = None, name: str = "") -> Config:
    """The base (the study's defaults) with the keys that a TOML document sets; raises ConfigError.

    `name`: the document's, which the error then begins with.
    """
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{name and f'{name}: '}not valid TOML: {str(error) or 'nested too deeply'}") from None
    try:
        return merge(table, base)
    except ConfigError as error:
        raise ConfigError(f"{name and f'{name}: '}{error}") from None


def merge(table: Mapping[str, Any], base: Config | None = None) -> Config:
    """The base with the keys that nested plain tables set, all checked together; raises ConfigError."""
    merged: Config = merge_record(base if base is not None else Config(), table, Config)
    return merged


def with_overrides(config: Config, overrides: Mapping[str, str]) -> Config:
    """The config with `{"rl.rounds": "3"}` applied at once; text is read as TOML, and bare words as text."""
    table: dict[str, Any] = {}
    for key, written in overrides.items():
        *sections, name = key.split(".")
        target = table
        for section in sections:
            target = target.setdefault(section, {})
            if not isinstance(target, dict):
                raise unknown_key(Config, Config, key, "")
        if name in target:
            raise ConfigError(f"{key}: set together with a key inside it")
        target[name] = read_value(written)
    return merge(table, config)
