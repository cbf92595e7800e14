"""Keys of configurations that published runs use and today's code does not.

A run's folder is read for as long as it is worth citing, longer than its names last. Each entry maps an old name to
today's, or to None where nothing has it any more. They are applied when a recorded run is read, and nowhere else: a
configuration that somebody writes today has today's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

CONFIG_KEYS: dict[str, str | None] = {
    "clock": "timing",
    "timing.placements": "timing.buffer_copies",
    "evaluation.every_rounds": "evaluation.evaluate_every",
    "verifier.clock": "verifier.timing",
    "verifier.share_renamed": None,
    "verifier.ask_interpreter": "verifier.cross_check_interpreter",
    "verifier.references_mb": "verifier.oracle_cache_mb",
}
"""Dotted keys, or whole sections; applied in this order."""
SUITES = {"corpus": "core13", "whole": "full", "wide": "extended"}


def translate_config(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a recorded configuration, as nested plain data, under today's keys."""
    translated = deepcopy(dict(plain))
    for old, new in CONFIG_KEYS.items():
        *sections, key = old.split(".")
        place = _find(translated, sections)
        if place is None or key not in place:
            continue
        value = place.pop(key)
        if new is not None:
            *sections, key = new.split(".")
            target = translated
            for section in sections:
                target = target.setdefault(section, {})
            target[key] = value
    if translated.get("suite") in SUITES:
        translated["suite"] = SUITES[translated["suite"]]
    return translated


def translate_run(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a recorded `run.json` under today's names."""
    translated = dict(plain)
    if isinstance(plain.get("config"), dict):
        translated["config"] = translate_config(plain["config"])
    if "clock" in translated:
        translated["timing_mode"] = translated.pop("clock")
    return translated


def _find(plain: dict[str, Any], sections: list[str]) -> dict[str, Any] | None:
    place: Any = plain
    for section in sections:
        place = place.get(section) if isinstance(place, dict) else None
    return place if isinstance(place, dict) else None
