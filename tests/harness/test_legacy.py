"""Recorded runs are read under today's names."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from tritonrl.core.config import Config, ConfigError, merge
from tritonrl.core.serialisation import to_plain
from tritonrl.harness.legacy import CONFIG_KEYS, translate_columns, translate_config, translate_run


def test_old_keys_are_dropped_or_take_their_new_names() -> None:
    """A key moves with its value, a section with all in it, and what nothing has any more is gone."""
    recorded = {"seed": 3, "old": {"a": 1, "b": 2}, "verifier": {"purity": "lenient", "gone": True}}
    names = {"verifier.gone": None, "verifier.purity": "judge.operators", "old": "new", "absent.key": "seed"}
    expected = {"seed": 3, "new": {"a": 1, "b": 2}, "verifier": {}, "judge": {"operators": "lenient"}}
    assert translate_config(recorded, names) == expected
    assert recorded["verifier"] == {"purity": "lenient", "gone": True}


@pytest.mark.parametrize("old", CONFIG_KEYS)
def test_every_entry_leads_to_a_key_of_today(old: str) -> None:
    """What is listed is unknown today, and a document that has it is read once translated."""
    today: Any = to_plain(Config())
    for name in (CONFIG_KEYS[old] or "seed").split("."):
        today = today[name]
    recorded: Any = today
    for name in reversed(old.split(".")):
        recorded = {name: recorded}
    with pytest.raises(ConfigError, match="unknown key"):
        merge(recorded)
    merge(translate_config(recorded))


def test_a_published_run_is_read_under_the_suites_of_today() -> None:
    """The values of `suite` have other names too."""
    assert translate_run({"config": {"suite": "whole"}, "clock": "measured"}) == {
        "config": {"suite": "full"},
        "timing_mode": "measured",
    }


def test_columns_are_dropped_or_renamed_in_their_own_table() -> None:
    """Only the named table changes, and only where it has the column."""
    frame = pl.DataFrame({"cell": ["none"], "old": [1], "gone": [2]})
    names = {("cells", "old"): "new", ("cells", "gone"): None, ("cells", "absent"): "other"}
    assert translate_columns("cells", frame, names).columns == ["cell", "new"]
    assert translate_columns("rounds", frame, names).columns == ["cell", "old", "gone"]
