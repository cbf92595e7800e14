"""Two passes are the same where they do the same, whatever the numbers of what they allocate."""

from __future__ import annotations

import random

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.plan import Buffer, BufferKind, Copy, Fill, LaunchPlan, View
from tritonrl.harness.sandbox.recording.plan_difference import find_difference


def view(buffer: int, size: int = 4, offset: int = 0) -> View:
    """A contiguous vector in a buffer."""
    return View(buffer=buffer, dtype="float32", shape=(size,), stride=(1,), offset=offset)


def plan(*steps: Fill | Copy, kinds: str, result: int) -> LaunchPlan:
    """A plan of fills and copies; of `kinds`, "i" is an input, "t" an allocation, in the order of their numbers."""
    named = {"i": BufferKind.INPUT, "t": BufferKind.TEMPORARY}
    buffers = tuple(
        Buffer(dtype="float32", num_elements=4, kind=named[kind], name=f"x{number}" if kind == "i" else "")
        for number, kind in enumerate(kinds)
    )
    return LaunchPlan(buffers=buffers, kernels=(), steps=steps, outputs=(view(result),))


def renumbered(given: LaunchPlan, order: list[int]) -> LaunchPlan:
    """The same plan, its buffer `n` now at `order.index(n)`."""

    def moved(one: View) -> View:
        return evolve(one, buffer=order.index(one.buffer))

    steps = tuple(
        evolve(step, target=moved(step.target))
        if isinstance(step, Fill)
        else evolve(step, source=moved(step.source), target=moved(step.target))
        for step in given.steps
        if isinstance(step, (Fill, Copy))
    )
    buffers = tuple(given.buffers[number] for number in order)
    return evolve(given, buffers=buffers, steps=steps, outputs=tuple(map(moved, given.outputs)))


FIRST = plan(
    Fill(target=view(1), value=0.0),
    Copy(source=view(0), target=view(1)),
    Copy(source=view(1), target=view(2)),
    kinds="itt",
    result=2,
)


@given(st.permutations(range(3)))
def test_other_numbers_are_no_difference(order: list[int]) -> None:
    assert find_difference(FIRST, renumbered(FIRST, order)) is None


@given(st.randoms(use_true_random=False), st.permutations(range(3)))
def test_a_step_elsewhere_is_one(randomness: random.Random, order: list[int]) -> None:
    """Whichever view of whichever step goes to another buffer."""
    at = randomness.randrange(len(FIRST.steps))
    step = FIRST.steps[at]
    assert isinstance(step, (Fill, Copy))
    name = randomness.choice(("source", "target")) if isinstance(step, Copy) else "target"
    old = getattr(step, name).buffer
    new = randomness.choice([number for number in range(3) if number != old])
    steps = (*FIRST.steps[:at], evolve(step, **{name: view(new)}), *FIRST.steps[at + 1 :])
    assert find_difference(FIRST, renumbered(evolve(FIRST, steps=steps), order)) is not None


def test_it_says_where() -> None:
    another = evolve(FIRST, steps=(Fill(target=view(1), value=1.0), *FIRST.steps[1:]))
    assert find_difference(FIRST, another) == "step 1 is a fill with 0 in the first pass, a fill with 1 in the second"
    shorter = evolve(FIRST, steps=FIRST.steps[:2])
    assert find_difference(FIRST, shorter) == "step 3 is a copy in the first pass, nothing in the second"
    assert "a copy in the first pass, the same with other arguments" in str(
        find_difference(FIRST, evolve(FIRST, steps=(*FIRST.steps[:2], Copy(source=view(0), target=view(2)))))
    )
    assert "returns other memory" in str(find_difference(FIRST, evolve(FIRST, outputs=(view(1),))))


def test_what_nobody_names_counts_by_what_it_is() -> None:
    """A count can be kept in the size of memory that no step uses."""
    spare = Buffer(dtype="float32", num_elements=4, kind=BufferKind.TEMPORARY, name="")
    one, other = (evolve(FIRST, buffers=(*FIRST.buffers, evolve(spare, num_elements=size))) for size in (4, 5))
    assert find_difference(one, other) == "the second pass allocates other memory than the first"
    assert find_difference(one, evolve(one)) is None


def test_an_input_is_no_other_input() -> None:
    """Two inputs of one size that change places."""
    first = plan(Copy(source=view(0), target=view(2)), kinds="iit", result=2)
    second = plan(Copy(source=view(1), target=view(2)), kinds="iit", result=2)
    assert find_difference(first, second) is not None
