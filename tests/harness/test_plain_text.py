"""Figures in lines for a person."""

from __future__ import annotations

from tritonrl.harness.plain_text import render_fields


def test_every_field_of_a_record_is_shown() -> None:
    """What there are several of stands below its name, numbers are rounded, and a long list is cut."""
    plain = {
        "num_tasks": 12_000,
        "wall_s": 0.123456,
        "is_sound": True,
        "speedup": None,
        "seconds": [1.0, 2.5],
        "outcomes": [("passed", 3), ("timeout", 1)],
        "first": {"judge_mb": 20.0, "strays": 0},
        "rejections": [{"name": "a", "reached": "full"}],
        "unexpected": [f"text {number}" for number in range(42)],
        "notes": [],
    }
    lines = render_fields(plain)
    assert lines[:5] == [
        "num tasks   12,000",
        "wall s      0.1235",
        "is sound    yes",
        "speedup     -",
        "seconds     1, 2.5",
    ]
    assert lines[5:8] == ["outcomes    2", "  passed 3", "  timeout 1"]
    assert lines[8:11] == ["first", "  judge mb  20", "  strays    0"]
    assert lines[11:13] == ["rejections  1", "  name a, reached full"]
    assert lines[-3:] == ["  text 39", "  and 2 more, which --json has", "notes       none"]
