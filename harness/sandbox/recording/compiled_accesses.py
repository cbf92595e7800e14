"""How a kernel's compiled code accesses memory: in which layouts, and which loads its loops make ahead of their time.

Triton spreads a block over threads as suits each load and store, so two of the same shape may give a lane to different
threads: what one has stored, the other need not see. And it pipelines loops: the loads of later iterations begin before
the stores of earlier ones, whatever they access. Both stand in the Triton GPU IR, which is read here as
`memory_effects` reads the IR before it. (Only loads of at least four bytes run ahead, only in loops without a barrier,
and only for a `tl.dot` or where `tl.range` asks for stages; all of that has happened by then.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ....core.plan import CompiledAccess
from .compiled_kernel import Reader, find_parameters, reach

_KINDS = {
    "tt.load": "load",
    "ttg.async_copy_global_to_local": "load ahead",
    "tt.store": "store",
    "tt.atomic_rmw": "store",
    "tt.atomic_cas": "store",
}
_LAYOUT = re.compile(r"tensor<([0-9x]+)x!tt\.ptr<[^<>]*>, (#\w+(?:\.\w+<\{[^}]*)?)")


class _AccessReader(Reader):
    """Notes the accesses beside."""

    def __init__(self) -> None:
        super().__init__()
        self.accesses: list[tuple[int, str, str, int]] = []
        self._loops: dict[int, int] = {}
        self._kept: list[object] = []  # so that no two have the same identity

    def _account(self, operation: str, operands: list[int], text: str) -> None:
        super()._account(operation, operands, text)
        kind = _KINDS.get(operation)
        if kind is None or not operands:
            return
        found = _LAYOUT.search(text)
        sizes = [size for size in found.group(1).split("x") if size != "1"] if found else []
        layout = f"{'x'.join(sizes)} {found.group(2)}" if found and sizes else ""
        loop = next((self._loops[id(region)] for region in reversed(self.regions) if id(region) in self._loops), -1)
        self.accesses.append((operands[0], kind, layout, loop))

    def _open(self, operation: str, results: list[int], carried: list[tuple[str, str]]) -> None:
        super()._open(operation, results, carried)
        if operation in ("scf.for", "scf.while"):
            region = self.regions[-1]
            self._kept.append(region)
            self._loops[id(region)] = len(self._loops)


def find_accesses(ttgir: str, names: Sequence[str]) -> tuple[CompiledAccess, ...]:
    """The accesses of the public function of `ttgir`, whose parameters are called `names` in order."""
    reader = _AccessReader()
    pointers = find_parameters(reader, ttgir, names)
    found = set()
    for value, kind, layout, loop in reader.accesses:
        reached = reach(reader.sources, [value])
        for name, number in pointers.items():
            if number in reached:
                found.add((name, kind, layout, loop))
    return tuple(
        CompiledAccess(parameter=name, kind=kind, layout=layout, loop=loop)
        for name, kind, layout, loop in sorted(found)
    )


def differ(accesses: Iterable[CompiledAccess]) -> bool:
    """Whether these, all to one buffer, store and load blocks of one shape in different layouts."""
    accesses = [access for access in accesses if access.layout]
    stored = {access.layout for access in accesses if access.kind == "store"}
    loaded = {access.layout for access in accesses if access.kind != "store"}
    return any(one != other and one.partition(" ")[0] == other.partition(" ")[0] for one in stored for other in loaded)


def run_ahead(accesses: Iterable[CompiledAccess]) -> bool:
    """Whether a loop among these, all to one buffer, stores what a load of its own may have loaded ahead."""
    accesses = list(accesses)
    stored = {access.loop for access in accesses if access.kind == "store" and access.loop >= 0}
    return any(access.kind == "load ahead" and access.loop in stored for access in accesses)
