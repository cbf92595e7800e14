"""The configuration tree refuses typos with one line that names the key, and identifies results."""

from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core import serialisation
from tritonrl.core.config import Config, ConfigError, RlConfig, identity, parse_toml, with_overrides
from tritonrl.core.config_fields import paths_of

LATER = {
    "against": "full:unseen",
    "policy.engine": "vllm",
    "sft.method": "full",
    "sft.data": "pairs.jsonl",
    "sft.level3_share": "0.1",
    "sft.draw_launches": "true",
    "rl.audited_samples": "3",
    "rl.algorithm": "rloo",
    "rl.audit": "false",
    "rl.timed": "false",
    "rl.skip_solved": "true",
    "rl.minibatches": "2",
    "rl.warmup_steps": "0",
    "rl.clip_low": "0.1",
    "rl.clip_high": "0.3",
    "rl.kl_coefficient": "0.1",
    "rl.negative_weight": "0.5",
    "rl.solved_weight": "0.25",
    "curriculum.families": "success",
    "curriculum.family_floor": "0.2",
    "curriculum.rehearsal_share": "0.5",
    "reward.goal": "correctness",
    "reward.speed_after": "4",
    "evaluation.evaluate_every": "2",
    "verifier.cross_check_interpreter": "false",
}
LATER_DEFAULTS = {
    "against": "''",
    "policy.engine": "own",
    "sft.method": "lora",
    "sft.data": "''",
    "sft.level3_share": "0.0",
    "sft.draw_launches": "false",
    "rl.audited_samples": "0",
    "rl.algorithm": "best-of-n",
    "rl.audit": "true",
    "rl.timed": "true",
    "rl.skip_solved": "false",
    "rl.minibatches": "1",
    "rl.warmup_steps": "4",
    "rl.clip_low": "0.2",
    "rl.clip_high": "0.28",
    "rl.kl_coefficient": "0",
    "rl.negative_weight": "1",
    "rl.solved_weight": "0",
    "curriculum.families": "turns",
    "curriculum.family_floor": "0.1",
    "curriculum.rehearsal_share": "0",
    "reward.goal": "graded",
    "reward.speed_after": "0",
    "evaluation.evaluate_every": "1",
    "verifier.cross_check_interpreter": "true",
}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rl.rounds = 0", "rl.rounds: must be >= 1, got 0"),
        ("[rl]\nroundz = 1", "unknown key: rl.roundz (did you mean rl.rounds?)"),
        ("rounds = 1", "unknown key: rounds (did you mean rl.rounds?)"),
        ("[rl]\nrounds = 2.9", "rl.rounds: expected an integer, got 2.9"),
        ("[rl]\nrounds = true", "rl.rounds: expected an integer, got true"),
        ("[rl]\ntemperature = 'false'", "rl.temperature: expected a finite number, got 'false'"),
        ("[rl]\ntemperature = nan", "rl.temperature: expected a finite number, got nan"),
        (
            "[rl]\nskip_solved = true\nsolved_weight = 0.2",
            "rl.solved_weight: groups that are all right are left out where skip_solved is true",
        ),
        ("[rl]\nkeep = 11", "rl.keep: must be <= samples_per_task (10), got 11"),
        ("curriculum.start_share = 0.6", "curriculum.start_share: must be <= end_share (0.5), got 0.6"),
        ("policy.dtype = 'int8'", "policy.dtype: must be one of auto, float32, bfloat16, got 'int8'"),
        (
            "policy.dtype = 'bfloat'",
            "policy.dtype: must be one of auto, float32, bfloat16, got 'bfloat' (did you mean bfloat16?)",
        ),
        ("rl = 3", "rl: expected a table of keys, got 3"),
        ("sft.data = ' '", "sft.data: expected one line of text, got ' '"),
        ("against = 3", "against: expected one line of text, got 3"),
        ("seed = [1]", "seed: expected an integer, got [1]"),
        ("verifier.cross_check_interpreter = 0", "verifier.cross_check_interpreter: expected true or false, got 0"),
        (
            "verifier.cross_check_interpreter = 'no'",
            "verifier.cross_check_interpreter: expected true or false, got 'no'",
        ),
    ],
)
def test_a_wrong_document_is_one_line_that_names_the_key(text: str, message: str) -> None:
    """Every kind of mistake gives exactly the line a person needs."""
    with pytest.raises(ConfigError) as caught:
        parse_toml(text)
    assert str(caught.value) == message


@pytest.mark.parametrize("text", ["[rl]\nroundz = 1", "rl.rounds = 2.9", "rl ="])
def test_a_wrong_document_with_a_name_is_named(text: str) -> None:
    """The same line, after the document's name."""
    plain = message_of(lambda: parse_toml(text))
    assert message_of(lambda: parse_toml(text, name="mine.toml")) == f"mine.toml: {plain}"


def message_of(make: Callable[[], Config]) -> str:
    """The line with which making a config is refused; empty where it is not."""
    try:
        make()
    except ConfigError as error:
        return str(error)
    return ""


def test_a_part_is_a_record_and_no_table() -> None:
    """A dictionary in its place is refused where the configuration is made, and not where a field is first read."""
    table: Any = {"seed": 5}
    with pytest.raises(ConfigError, match="verifier: expected a VerifierConfig, got"):
        Config(verifier=table)


@given(st.text(max_size=200))
def test_any_text_is_a_config_or_one_line(text: str) -> None:
    """No document ends in another exception or in a message of several lines."""
    assert message_of(lambda: parse_toml(text)).count("\n") == 0


@given(st.sampled_from(paths_of(Config)), st.text(max_size=30))
def test_any_override_is_a_config_or_a_line_that_names_the_key(key: str, text: str) -> None:
    """A bad value on the command line is traced to its key."""
    message = message_of(lambda: with_overrides(Config(), {key: text}))
    assert not message or message.startswith(key)
    assert "\n" not in message


def test_a_document_is_merged_into_its_base() -> None:
    """Keys that are not set keep the base's values, not the defaults."""
    base = parse_toml("seed = 7\n[rl]\nrounds = 9")
    merged = parse_toml("[rl]\nkeep = 1", base)
    assert (merged.seed, merged.rl.rounds, merged.rl.keep) == (7, 9, 1)


def test_overrides_are_checked_together() -> None:
    """Two keys that only agree with each other can be changed in one go."""
    config = with_overrides(Config(), {"rl.keep": "20", "rl.samples_per_task": "30", "policy.name": "org/model"})
    assert (config.rl.keep, config.rl.samples_per_task, config.policy.name) == (20, 30, "org/model")


@pytest.mark.parametrize("key", ["rl.rounds.deep", "rl", "nothing.at.all", "", "rl."])
def test_an_override_of_no_key_is_refused(key: str) -> None:
    """An override must name one value."""
    with pytest.raises(ConfigError):
        with_overrides(Config(), {key: "3"})


def test_construction_in_python_is_checked_as_well() -> None:
    """The validators hold however a record is made."""
    with pytest.raises(ConfigError, match="keep"):
        RlConfig(keep=5, samples_per_task=4)
    with pytest.raises(ConfigError, match="rounds: expected an integer"):
        RlConfig(rounds=2.9)  # type: ignore[arg-type]


def test_the_tree_survives_json() -> None:
    """A config equals itself after a round trip through plain data."""
    config = with_overrides(Config(), {"reward.speedup_cap": "8", "curriculum.schedule": "accuracy"})
    assert serialisation.from_plain(serialisation.to_plain(config), Config) == config


def fingerprint(config: Config) -> str:
    return serialisation.fingerprint(identity(config))


def test_the_identity_drops_what_changes_no_result() -> None:
    """Neither threads, nor requests at once, nor memory change a fingerprint; any other key does."""
    config = Config()
    without_effect = {
        "policy.threads": "3",
        "policy.requests": "3",
        "policy.gpu_memory": "0.3",
        "verifier.oracle_cache_mb": "3",
        "verifier.memory_mb": "3",
    }
    assert fingerprint(with_overrides(config, without_effect)) == fingerprint(config)
    assert fingerprint(evolve(config, seed=1)) != fingerprint(config)
    named = [
        f"{name}.{key}" if key else name
        for name, table in identity(config).items()
        for key in (table if isinstance(table, dict) else ("",))
    ]
    assert named == [key for key in paths_of(Config) if key not in (*without_effect, *LATER)]


@pytest.mark.parametrize(("key", "value"), LATER.items())
def test_a_later_key_identifies_only_where_it_is_set(key: str, value: str) -> None:
    """What was computed before a key came keeps its fingerprint, and another value than the default has its own."""
    changed = with_overrides(Config(), {key: value})
    assert fingerprint(changed) != fingerprint(Config())
    assert fingerprint(with_overrides(changed, {key: LATER_DEFAULTS[key]})) == fingerprint(Config())


def test_a_whole_number_has_the_fingerprint_of_the_same_number() -> None:
    """Writing 1 for 1.0 is not another experiment."""
    assert fingerprint(parse_toml("rl.temperature = 1")) == fingerprint(parse_toml("rl.temperature = 1.0"))
