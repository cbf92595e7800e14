"""Recorded runs are read under today's names."""

from __future__ import annotations

from typing import Any

import pytest
from tritonrl.core.config import Config, ConfigError, merge
from tritonrl.core.serialisation import to_plain
from tritonrl.harness.legacy import CONFIG_KEYS, translate_config, translate_run


def test_old_keys_are_dropped_or_take_their_new_names() -> None:
    """A key moves with its value, a section with all in it, and what nothing has any more is gone."""
    recorded = {
        "seed": 3,
        "clock": {"trials": 1, "placements": 2},
        "verifier": {"clock": "none", "share_renamed": True},
    }
    expected = {"seed": 3, "timing": {"trials": 1, "buffer_copies": 2}, "verifier": {"timing": "none"}}
    assert translate_config(recorded) == expected
    assert recorded["verifier"] == {"clock": "none", "share_renamed": True}


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
