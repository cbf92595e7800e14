"""Which pointer parameters a kernel reads and writes, from its optimised Triton IR.

The judge's audit follows data from inputs to outputs through launches, so it must know each launch's reads and writes.
The IR is text in SSA form; a value may derive from a parameter where any value that it is computed from does. That is
followed to a fixed point over assignments, loop-carried values and branches, and over-approximates: arithmetic on a
loaded *value* is cut off at the load (a loaded integer is no pointer into its source), everything else flows on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from attrs import frozen

_VALUE = re.compile(r"%[A-Za-z0-9_$.-]+")
_FUNCTION = re.compile(r"tt\.func\s+(?:public\s+|private\s+)?@\"?([^\"(\s]+)\"?\((.*)$")
_PARAMETER = re.compile(r"(%[A-Za-z0-9_$.-]+): (!tt\.ptr<|!tt\.tensordesc|tensor|[^\s,]+)")
_ITERATION = re.compile(r"(%[A-Za-z0-9_$.-]+) = (%[A-Za-z0-9_$.-]+)")
_PRECISION = re.compile(r"inputPrecision = (\w+)")
_READERS = ("tt.load", "tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_load", "tt.descriptor_gather")
_WRITERS = ("tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_store", "tt.descriptor_reduce")


@frozen(kw_only=True)
class Effects:
    """Pointer parameters by name, in the kernel's order."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    has_dot: bool
    dot_precision: str | None


def find_effects(ttir: str, names: Sequence[str]) -> Effects:
    """The effects of the public function of `ttir`, whose parameters are called `names` in order."""
    lines = [re.sub(r"\s+loc\(.*$", "", line).strip() for line in ttir.splitlines() if not line.startswith("#loc")]
    parameters = _parameters(lines)
    edges: dict[str, set[str]] = {}
    reads: set[str] = set()
    writes: set[str] = set()
    precisions: list[str] = []
    has_dot = False
    owners: list[list[str]] = []  # results of the enclosing operations with regions
    for line in lines:
        results, operation, operands = _split(line)
        if any(reader in operation for reader in _READERS):
            reads.update(operands[:1])
        if any(writer in operation for writer in _WRITERS):
            writes.update(operands[:1])
        if re.search(r"\btt\.dot(_scaled)?\b", operation):
            has_dot = True
            found = _PRECISION.search(line)
            precisions.append(found.group(1) if found else "ieee")
        for inner, outer in _ITERATION.findall(line) if "iter_args" in line or "scf.while" in line else ():
            edges.setdefault(inner, set()).add(outer)
        if operation.startswith(("scf.yield", "scf.condition")) and owners:
            _flow(edges, owners[-1], operands)
        elif not operation.startswith("tt.load"):
            _flow(edges, results, operands)
        if line.endswith("{"):
            carried = [inner for inner, _ in _ITERATION.findall(line)] if "iter_args" in line else []
            owners.append([*results, *carried] if not line.startswith("}") else (owners.pop() if owners else []))
        elif line.startswith("}") and owners:
            owners.pop()
    reached_reads = _reach(edges, reads)
    reached_writes = _reach(edges, writes)
    named = list(zip(names, parameters, strict=False))
    return Effects(
        reads=tuple(name for name, value in named if value in reached_reads),
        writes=tuple(name for name, value in named if value in reached_writes),
        has_dot=has_dot,
        dot_precision=_coarsest(precisions),
    )


def _parameters(lines: Iterable[str]) -> list[str]:
    for line in lines:
        if "tt.func public" in line:
            return [value for value, _ in _PARAMETER.findall(line.partition("(")[2])]
    return []


def _split(line: str) -> tuple[list[str], str, list[str]]:
    """Results, operation with its operands' text, and operands of one line of the IR."""
    left, separator, right = line.partition(" = ")
    if separator and left.startswith("%") and "(" not in left and left.count(" ") <= left.count(", "):
        results = [value.partition(":")[0] for value in _VALUE.findall(left)]
    else:
        results, right = [], line
    return results, right, _VALUE.findall(right)


def _flow(edges: dict[str, set[str]], targets: Iterable[str], sources: Iterable[str]) -> None:
    plain = {source.partition("#")[0] for source in sources}
    for target in targets:
        edges.setdefault(target, set()).update(plain)


def _reach(edges: dict[str, set[str]], start: Iterable[str]) -> set[str]:
    reached: set[str] = set()
    waiting = [value.partition("#")[0] for value in start]
    while waiting:
        value = waiting.pop()
        if value not in reached:
            reached.add(value)
            waiting.extend(edges.get(value, ()))
    return reached


def _coarsest(precisions: Sequence[str]) -> str | None:
    for name in ("tf32", "bf16x3", "bf16x6", "tf32x3", "ieee"):
        if name in precisions:
            return name
    return precisions[0] if precisions else None
