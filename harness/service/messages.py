"""The JSON that clients and server exchange.

`POST /v1/verify` takes `{"items": [ITEM, ...], "spec": SPEC}` and answers `{"verdicts": [...]}` in the order of the
items. An item is `{"task": TASK, "candidate": SOURCE}`, or has `"completion"`, from which the source is extracted, in
the candidate's place. A task is an id of the corpus, a task record, or `{"name": ..., "source": ...}` for a program in
KernelBench's form. A path is no task: a server reads no files for its clients. `spec` is optional, the audit by
default.

A verdict is the object that `tritonrl verify --json` prints, and `"cached"`: whether it was known before it was asked
for, so that its seconds are those of then. Where the item's task is none or its reference fails, it is
`{"error": SENTENCE}` in that place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.outcome import Outcome, Stage
from ...core.recipe.extensions import AUDIT, VerifierSpec
from ...core.serialisation import from_plain
from ...core.verdict import StageResult, Verdict

MAX_BODY_BYTES = 64 << 20


def read_request(body: Any) -> tuple[list[dict[str, Any]], VerifierSpec]:
    """Return the items of a request and its specification; raises ValueError in one line."""
    if not isinstance(body, dict) or not isinstance(body.get("items"), list):
        raise ValueError('expected {"items": [...]}')
    unknown = sorted(set(body) - {"items", "spec"})
    if unknown:
        raise ValueError(f"unknown key: {unknown[0]}")
    for number, item in enumerate(body["items"]):
        _require_item(item, f"items.{number}")
    return body["items"], from_plain(body["spec"], VerifierSpec) if "spec" in body else AUDIT


def _require_item(item: Any, where: str) -> None:
    keys = set(item) if isinstance(item, dict) else set()
    if keys not in ({"task", "candidate"}, {"task", "completion"}):
        raise ValueError(f'{where}: expected {{"task": ..., "candidate": "..."}} or a "completion" in its place')
    if not isinstance(item.get("candidate", item.get("completion")), str):
        raise ValueError(f"{where}: the candidate must be text")
    if not isinstance(item["task"], str | dict):
        raise ValueError(f"{where}: the task must be an id, a record, or a program with its name")


def verdict_from_plain(plain: Mapping[str, Any]) -> Verdict:
    """Return the verdict that an object of `verify --json` tells; raises KeyError for one that is none."""
    return Verdict(
        task_id=plain["task"],
        candidate=plain["candidate"],
        backend=plain["backend"],
        stages=tuple(
            StageResult(
                stage=Stage(stage["stage"]),
                outcome=Outcome.from_code(stage["outcome"]),
                seconds=stage["seconds"],
                message=stage["message"],
            )
            for stage in plain["stages"]
        ),
        speedup=plain["speedup"],
        estimated_speedup=plain.get("estimated_speedup"),
        compiled_speedup=plain.get("compiled_speedup"),
        torch_operators=plain["torch_operators"],
        declared=plain.get("declared"),
    )
