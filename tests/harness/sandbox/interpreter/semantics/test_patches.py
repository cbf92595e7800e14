"""What the interpreter remembers is what it would have found."""

from __future__ import annotations

from typing import Any

import triton.language as tl
from triton.runtime import interpreter
from tritonrl.harness.sandbox.interpreter.semantics.patches import remember_types

NUMBERS = [
    one
    for one in vars(tl).values()
    if isinstance(one, tl.dtype) and not isinstance(one, tl.pointer_type) and one is not tl.void
]


def test_a_type_has_the_same_kind_of_number() -> None:
    """Alone, in a block, and where it is pointed to; the table is asked once for each."""
    asked: list[str] = []

    def ask(kind: Any) -> Any:
        asked.append(str(kind))
        return interpreter._get_np_dtype(kind)

    remembered = remember_types(ask)
    assert len(NUMBERS) > 15
    for number in NUMBERS:
        kinds = [number, tl.block_type(number, [4]), tl.block_type(number, [2, 8])]
        for _ in range(2):
            assert [remembered(kind) for kind in kinds] == [interpreter._get_np_dtype(kind) for kind in kinds]
    assert len(asked) == len({number.name for number in NUMBERS})
    pointer = tl.pointer_type(tl.float16)
    for kind in (pointer, tl.block_type(pointer, [4])):
        assert remembered(kind) == interpreter._get_np_dtype(kind)
