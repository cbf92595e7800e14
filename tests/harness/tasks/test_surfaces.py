"""A surface changes how a program is written and nothing that it does."""

from __future__ import annotations

import re
from itertools import islice

import pytest
import torch
from tritonrl.core.corpus import Split, examples, families
from tritonrl.core.corpus.builder.draw import Draw
from tritonrl.core.corpus.surfaces.dialects import DIALECTS, Dialect
from tritonrl.core.corpus.surfaces.surface import write_surface
from tritonrl.core.graphs.graph_hash import hash_graph
from tritonrl.core.task import Example, Profile, Task
from tritonrl.harness.reference.graph.operation_trace import trace_graph
from tritonrl.harness.reference.reference import (
    build_model,
    call_model,
    draw_inputs,
    init_arguments,
    load_task,
    seeded,
)

CANONICAL = [
    example
    for level, names in families().items()
    for example in islice(examples(Split.TRAIN, level, 11, names), 3 * len(names))
]


def run(
    task: Task, inputs: list[torch.Tensor] | None = None
) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
    """Returns inputs, parameters and results at tiny sizes; the given inputs where there are any."""
    module = load_task(task, Profile.TINY)
    model = build_model(task, module, 7)
    given = draw_inputs(task, module, 3) if inputs is None else inputs
    # a batch norm changes its own as it runs
    parameters = [value.clone() for value in model.state_dict().values()]
    return given, parameters, list(call_model(task, model, given))


def assert_same_work(canonical: Example, dialect: Dialect, seed: int) -> bool:
    """Holds a surface against its canonical program; returns whether the two have the same tiny sizes."""
    written = write_surface(canonical, dialect, Draw(seed)).task
    inputs, parameters, results = run(written)
    own_inputs, own_parameters, own_results = run(canonical.task)
    # an input may be a number
    inputs, own_inputs = ([torch.as_tensor(value) for value in given] for given in (inputs, own_inputs))
    shapes = [value.shape for value in inputs]
    assert hash_graph(trace_graph(written)) == hash_graph(trace_graph(canonical.task))
    if shapes != [value.shape for value in own_inputs]:
        return False
    if any(not torch.equal(left, right) for left, right in zip(inputs, own_inputs, strict=True)):
        # uniform in place of normal, or scaled: what is the same is what is made of it
        assert re.search(r"torch\.rand\(|\d \* torch\.randn\(|torch\.randn\(.*\) \* \d", written.source)
        own_results = run(canonical.task, inputs)[2]
    # a list of convolutions before one of norms names the same parameters in another order
    pairs = zip(*(sorted(values, key=_order) for values in (parameters, own_parameters)), strict=True)
    assert all(torch.equal(left, right) for left, right in pairs)
    for left, right in zip(results, own_results, strict=True):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5, equal_nan=True)
    return True


def _order(value: torch.Tensor) -> tuple[list[int], list[float]]:
    return list(value.shape), value.flatten().tolist()


@pytest.mark.parametrize("place", range(len(DIALECTS)), ids=lambda place: DIALECTS[place].name)
def test_a_surface_has_the_same_parameters_results_and_graph(place: int) -> None:
    """Seeded alike, both programs hold the same parameters and return the same values; their graphs are one."""
    chosen = CANONICAL[place :: len(DIALECTS)]
    compared = sum(assert_same_work(example, DIALECTS[place], 100 + n) for n, example in enumerate(chosen))
    assert compared > 0.7 * len(chosen)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_every_family_has_the_same_graph_in_every_dialect(dialect: Dialect) -> None:
    """Three tasks of each family."""
    for seed, example in enumerate(CANONICAL):
        assert_same_work(example, dialect, seed)


@pytest.mark.parametrize("place", range(len(DIALECTS)), ids=lambda place: DIALECTS[place].name)
def test_the_candidate_is_built_with_the_reference_parameters(place: int) -> None:
    """`ModelNew` takes what `get_init_inputs` gives, and has the reference's parameters by name and value."""
    for seed, canonical in enumerate(CANONICAL[place :: len(DIALECTS)]):
        written = write_surface(canonical, DIALECTS[place], Draw(seed))
        module = load_task(written.task, Profile.TINY)
        args, words = init_arguments(written.task, module)
        candidate: dict[str, type[torch.nn.Module]] = {}
        exec(written.solution.replace("@triton.jit\n", ""), candidate)
        with seeded(7):
            own = candidate["ModelNew"](*args, **words).state_dict()
        expected = build_model(written.task, module, 7).state_dict()
        assert list(own) == list(expected)
        assert all(torch.equal(own[name], value) for name, value in expected.items())
