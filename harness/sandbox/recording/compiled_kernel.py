"""Read a compiled kernel's IR: its reads and writes of pointer parameters, and its accesses' layouts.

The judge's audit follows data from inputs to outputs through launches, so it must know each launch's reads and writes.
The IR is text in SSA form; a value may derive from a parameter where any value that it is computed from does. That is
followed to a fixed point over assignments, loop-carried values and branches, and over-approximates: arithmetic on a
loaded *value* is cut off at the load (a loaded integer is no pointer into its source), everything else flows on.

The Triton GPU IR, read alike, has the layouts: two blocks of one shape may give a lane to different threads, and what
one thread has stored the other need not see. It also shows pipelined loops, in which loads of later iterations begin
before the stores of earlier ones. (Only loads of at least four bytes run ahead, only in loops without a barrier, and
only for a `tl.dot` or where `tl.range` asks for stages; all of that has happened by then.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from attrs import define, field

from ....core.plan import CompiledAccess

_VALUE = re.compile(r"%[A-Za-z0-9_$.-]+(?:#[0-9]+)?")
_LOCATION = re.compile(r"\s*\bloc\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_RESULTS = re.compile(r"(%[A-Za-z0-9_$.-]+)(?::([0-9]+))?")
_PARAMETER = re.compile(r"(%[A-Za-z0-9_$.-]+): (!?[a-z_.0-9]+)")
_ITERATION = re.compile(r"(%[A-Za-z0-9_$.-]+) = (%[A-Za-z0-9_$.-]+(?:#[0-9]+)?)")
_OPERATION = re.compile(r"\"?([a-z_]+(?:\.[a-z_0-9]+)+)")
_PRECISION = re.compile(r"inputPrecision = (\w+)")
_OPERANDS = re.compile(r": tensor<(?:\d+x)+(\w+)> \* tensor<(?:\d+x)+(\w+)>")
_CONVERSION = re.compile(r" to (?:tensor<(?:\d+x)*)?(\w+)>?$")
_ATOMICS = ("tt.atomic_rmw", "tt.atomic_cas")
_READERS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather", "tt.call", *_ATOMICS)
_WRITERS = ("tt.store", "tt.descriptor_store", "tt.descriptor_scatter", "tt.descriptor_reduce", "tt.call", *_ATOMICS)
_ENDS = ("tt.load", "tt.descriptor_load", "tt.descriptor_gather", "ttg.async_copy_global_to_local", *_ATOMICS)
_KINDS = {
    "tt.load": "load",
    "ttg.async_copy_global_to_local": "load ahead",
    "tt.store": "store",
    "tt.atomic_rmw": "store",
    "tt.atomic_cas": "store",
}
_TO_FLOATS = ("arith.sitofp", "arith.uitofp", "arith.bitcast", "tt.bitcast", "tt.extern_elementwise", "tt.call")
_FLOATS = re.compile(r"(?:to|->) \(?(?:tensor<(?:\d+x)*)?b?f\d+")
_LAYOUT = re.compile(r"tensor<([0-9x]+)x!tt\.ptr<[^<>]*>, (#\w+(?:\.\w+<\{[^}]*)?)")
_COARSENESS = ("tf32", "bf16x3", "bf16x6", "tf32x3", "ieee")


@define(eq=False)
class _Region:
    """An open region: its names, and where its terminator's operands flow to."""

    names: dict[str, int] = field(factory=dict)
    targets: list[list[int]] = field(factory=list)  # by position: the values that a yielded operand becomes
    loop: int = -1  # its number, where it is the body of a loop


class _Reader:
    """Walks the lines once, giving each SSA value a number (names repeat between sibling regions)."""

    def __init__(self) -> None:
        self.sources: list[set[int]] = []
        self.regions = [_Region()]
        self.reads: set[int] = set()
        self.writes: set[int] = set()
        self.precisions: list[str] = []
        self.has_dot = False
        self.operands: set[str] = set()
        self.narrowed: set[str] = set()
        self.accesses: list[tuple[int, str, str, int]] = []
        self.pointers: dict[str, int] = {}
        self.num_loops = 0
        self.places: set[int] = set()  # addresses and masks
        self.made_floats: set[int] = set()

    def define_value(self, name: str, region: _Region) -> int:
        """Number a new value under this name."""
        region.names[name] = len(self.sources)
        self.sources.append(set())
        return region.names[name]

    def find(self, name: str) -> int:
        """Return the value that the name means here."""
        for region in reversed(self.regions):
            if name in region.names:
                return region.names[name]
        base = name.partition("#")[0]
        return self.find(base) if base != name else self.define_value(name, self.regions[0])

    def read(self, line: str) -> None:
        """Account for one line."""
        if line.startswith("^"):
            self._block(line)
            return
        left, equals, right = line.partition(" = ")
        is_assignment = bool(equals) and left.startswith("%") and "(" not in left
        text = right if is_assignment else line
        found = _OPERATION.match(text)
        operation = found.group(1) if found else ""
        carried = _ITERATION.findall(text) if operation in ("scf.for", "scf.while") else []
        operands = [self.find(name) for name in _VALUE.findall(text) if name not in dict(carried)]
        if operation == "scf.for":
            operands = [self.find(outer) for _, outer in carried[1:]]
        self._account(operation, operands, text)
        if line.startswith("}"):
            closed = self.regions.pop() if len(self.regions) > 1 else _Region()
            if line.endswith("{"):
                self.regions.append(_Region(targets=closed.targets))
            return
        results = self._results(left) if is_assignment else []
        if operation in _TO_FLOATS and (operation == "tt.call" or _FLOATS.search(text)):
            self.made_floats.update(results)
        if operation not in _ENDS and operation not in ("scf.for", "scf.while"):
            for result in results:
                self.sources[result].update(operands)
        if operation in ("scf.yield", "scf.condition"):
            values = operands[1:] if operation == "scf.condition" else operands
            for value, targets in zip(values, self.regions[-1].targets, strict=False):
                for target in targets:
                    self.sources[target].add(value)
        if line.endswith("{"):
            own = {inner for inner, _ in carried}
            bounds = [self.find(name) for name in _VALUE.findall(text.partition("iter_args")[0]) if name not in own]
            self._open(operation, results, carried, bounds if operation == "scf.for" else [])

    def _account(self, operation: str, operands: list[int], text: str) -> None:
        pointers = operands if operation == "tt.call" else operands[:1]
        if operation in _READERS or operation in _WRITERS:
            self.places.update(_find_places(operation, operands))
        if operation in _READERS:
            self.reads.update(pointers)
        if operation in _WRITERS:
            self.writes.update(pointers)
        if operation in ("arith.truncf", "tt.fp_to_fp") and (types := _CONVERSION.search(text)):
            self.narrowed.add(types.group(1))
        if operation in ("tt.dot", "tt.dot_scaled"):
            self.has_dot = True
            if types := _OPERANDS.search(text):
                self.operands.update(types.groups())
            precision = _PRECISION.search(text)
            self.precisions.append(precision.group(1) if precision else "ieee")
        if operation in _KINDS and operands:
            found = _LAYOUT.search(text)
            sizes = [size for size in found.group(1).split("x") if size != "1"] if found else []
            layout = f"{'x'.join(sizes)} {found.group(2)}" if found and sizes else ""
            loop = next((region.loop for region in reversed(self.regions) if region.loop >= 0), -1)
            self.accesses.append((operands[0], _KINDS[operation], layout, loop))

    def _results(self, left: str) -> list[int]:
        region, results = self.regions[-1], []
        for name, count in _RESULTS.findall(left):
            results += [self.define_value(f"{name}#{at}" if count else name, region) for at in range(int(count or 1))]
        return results

    def _open(self, operation: str, results: list[int], carried: list[tuple[str, str]], bounds: list[int]) -> None:
        region = _Region(targets=[[result] for result in results])
        pairs = carried[1:] if operation == "scf.for" else carried
        if operation == "scf.for" and carried:
            self.sources[self.define_value(carried[0][0], region)].update(bounds)
        for at, (inner, outer) in enumerate(pairs):
            source = self.find(outer)
            value = self.define_value(inner, region)
            self.sources[value].add(source)
            if at < len(region.targets):
                self.sources[region.targets[at][0]].add(source)
            while len(region.targets) <= at:
                region.targets.append([])
            region.targets[at].append(value)
        if operation in ("scf.for", "scf.while"):
            region.loop = self.num_loops
            self.num_loops += 1
        self.regions.append(region)

    def _block(self, line: str) -> None:
        """Define a block's arguments; those of `scf.while`'s second region receive what the first one passes on."""
        region = self.regions[-1]
        for at, (name, _) in enumerate(_PARAMETER.findall(line)):
            value = self.define_value(name, region)
            if at < len(region.targets):
                for other in region.targets[at]:
                    self.sources[value].add(other)


def _find_places(operation: str, operands: list[int]) -> list[int]:
    """Return the operands that say where an access goes and which of its lanes do: all but what is stored."""
    if operation == "tt.load":
        return operands[:2]
    if operation in ("tt.store", "tt.atomic_rmw"):
        return operands[:1] + operands[2:]
    return operands[:1] if operation == "tt.atomic_cas" else operands


def read_function(text: str, names: Sequence[str]) -> _Reader:
    """Read the public function of an IR's text, whose parameters are called `names` in order."""
    reader = _Reader()
    inside = False
    for raw in text.splitlines():
        line = _LOCATION.sub("", raw).strip()
        if line.startswith("tt.func"):
            inside = "tt.func public" in line
            if inside:
                for name, (value, kind) in zip(names, _PARAMETER.findall(line.partition("(")[2]), strict=False):
                    number = reader.define_value(value, reader.regions[0])
                    if kind.startswith(("!tt.ptr", "!tt.tensordesc")):
                        reader.pointers[name] = number
        elif inside and line and not line.startswith("#"):
            reader.read(line)
    return reader


def without_locations(text: str) -> str:
    """Return an IR's text without its places in the source."""
    return _LOCATION.sub("", "\n".join(line for line in text.splitlines() if not line.startswith("#loc")))


def find_effects(ttir: str, names: Sequence[str]) -> dict[str, Any]:
    """Return a `Kernel`'s fields of what it reads, writes and computes; its parameters are called `names`."""
    reader = read_function(ttir, names)
    reads, writes = _reach(reader.sources, reader.reads), _reach(reader.sources, reader.writes)
    return {
        "reads": tuple(name for name, value in reader.pointers.items() if value in reads),
        "writes": tuple(name for name, value in reader.pointers.items() if value in writes),
        "has_dot": reader.has_dot,
        "dot_precision": next((name for name in _COARSENESS if name in reader.precisions), None),
        "dot_operands": tuple(sorted(reader.operands)),
        "narrowed": tuple(sorted(reader.narrowed)),
        "places_by_floats": not reader.made_floats.isdisjoint(_reach(reader.sources, reader.places)),
    }


def find_accesses(ttgir: str, names: Sequence[str]) -> tuple[CompiledAccess, ...]:
    """Return the accesses of the public function of `ttgir`, whose parameters are called `names` in order."""
    reader = read_function(ttgir, names)
    found = set()
    for value, kind, layout, loop in reader.accesses:
        reached = _reach(reader.sources, [value])
        found |= {(name, kind, layout, loop) for name, number in reader.pointers.items() if number in reached}
    return tuple(
        CompiledAccess(parameter=name, kind=kind, layout=layout, loop=loop)
        for name, kind, layout, loop in sorted(found)
    )


def _reach(sources: Sequence[set[int]], start: Iterable[int]) -> set[int]:
    """Return all values that these derive from, and they themselves."""
    reached: set[int] = set()
    waiting = list(start)
    while waiting:
        value = waiting.pop()
        if value not in reached:
            reached.add(value)
            waiting.extend(sources[value])
    return reached


def differ(accesses: Iterable[CompiledAccess]) -> bool:
    """Return whether these, all to one buffer, store and load blocks of one shape in different layouts."""
    accesses = [access for access in accesses if access.layout]
    stored = {access.layout for access in accesses if access.kind == "store"}
    loaded = {access.layout for access in accesses if access.kind != "store"}
    return any(one != other and one.partition(" ")[0] == other.partition(" ")[0] for one in stored for other in loaded)


def run_ahead(accesses: Iterable[CompiledAccess]) -> bool:
    """Return whether a loop among these, all to one buffer, stores what a load of its own may have loaded ahead."""
    accesses = list(accesses)
    stored = {access.loop for access in accesses if access.kind == "store" and access.loop >= 0}
    return any(access.kind == "load ahead" and access.loop in stored for access in accesses)
