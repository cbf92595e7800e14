"""The oracle: fp64 results on inputs that follow from seed, task and variant alone."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from attrs import evolve
from tritonrl.core.candidate import Variant
from tritonrl.core.corpus import render
from tritonrl.core.task import Profile, Task
from tritonrl.harness.errors import TaskError
from tritonrl.harness.reference.oracle import Oracle
from tritonrl.harness.reference.values import place_like, transform
from tritonrl.stages.tolerance import find_scale
from tritonrl.stages.variants import describe

from ..kernels import ADD, LINEAR, NORM, POINTWISE

ORIGINAL = describe(Variant.ORIGINAL, ("float32",))


def test_expected_values_are_the_formulas_in_fp64() -> None:
    """On the inputs that it hands out, the oracle's values are those of an independent fp64 computation."""
    run = Oracle(0).expected(LINEAR, ORIGINAL)
    x = run.inputs[0]
    assert x is not None
    weight, bias = (run.parameters[f"linear.{name}"].double().numpy() for name in ("weight", "bias"))
    wanted = np.maximum(x.double().numpy() @ weight.T + bias, 0.0)
    assert run.expected[0].dtype == np.float64
    np.testing.assert_allclose(run.expected[0], wanted, rtol=1e-12)
    assert run.dtypes == ("float32",)


def test_ordinary_results_at_one_size_are_measured_by_a_share_of_those_at_others() -> None:
    """Of few results all may be next to nothing; at the sizes that are rewarded, and of other values, it is not so."""
    oracle, dtypes = Oracle(0), ("float32",)
    whole = [describe(Variant.ORIGINAL, dtypes, each) for each in (Profile.TINY, Profile.SMALL, Profile.LARGER)]
    largest = max(find_scale(oracle.expected(POINTWISE, each).expected[0]) for each in whole)
    (least,) = oracle.expected(POINTWISE, describe(Variant.PAST_BOUNDS, dtypes)).least_scales
    assert least == pytest.approx(1e-3 * largest)
    for variant in (Variant.DECLARED, Variant.ORIGINAL, Variant.BETWEEN):
        assert not oracle.expected(POINTWISE, describe(variant, dtypes)).least_scales


def test_values_depend_on_the_seed_and_on_nothing_else() -> None:
    """Two oracles with one seed agree, whatever the global generator does or was asked before; another seed differs."""
    first = Oracle(7).expected(NORM, ORIGINAL)
    torch.manual_seed(123)
    state = torch.get_rng_state()
    other = Oracle(7)
    other.expected(ADD, ORIGINAL)
    second = other.expected(NORM, ORIGINAL)
    assert np.array_equal(first.expected[0], second.expected[0])
    assert torch.equal(torch.get_rng_state(), state)
    assert not np.array_equal(first.expected[0], Oracle(8).expected(NORM, ORIGINAL).expected[0])


@pytest.mark.parametrize("seeded", [False, True])
def test_parameters_hide_nothing(seeded: bool) -> None:
    """A norm's weight is never 1 and its bias never 0, also where seeded values are asked for."""
    run = Oracle(0).expected(
        NORM, ORIGINAL, seeded_parameters=frozenset({"norm.weight", "norm.bias"} if seeded else ())
    )
    assert run.parameters["norm.weight"].std() > 0.1
    assert run.parameters["norm.weight"].min() > 0
    assert run.parameters["norm.bias"].std() > 0.1


def test_seeded_parameters_are_those_of_construction() -> None:
    """Where the candidate relies on the seed, drawn values are kept as construction drew them."""
    oracle = Oracle(0)
    torch.manual_seed(oracle.init_seed(LINEAR))
    layer = torch.nn.Linear(33, 20)
    run = oracle.expected(LINEAR, ORIGINAL, seeded_parameters=frozenset({"linear.weight"}))
    assert torch.equal(run.parameters["linear.weight"], layer.weight.detach())
    fresh = oracle.expected(LINEAR, ORIGINAL).parameters["linear.weight"]
    assert not torch.equal(fresh, layer.weight.detach())
    assert 0.5 < float(fresh.std() / layer.weight.detach().std()) < 2.0


def test_variants_do_what_they_say() -> None:
    """Scaling doubles the original's values, larger has other sizes, precision is exact in its dtype."""
    oracle = Oracle(0)
    runs = {v: oracle.expected(POINTWISE, describe(v, POINTWISE.dtypes)) for v in Variant}
    inputs = {variant: run.inputs[0] for variant, run in runs.items()}
    assert torch.equal(inputs[Variant.SCALED], 2 * inputs[Variant.ORIGINAL])
    assert torch.equal(inputs[Variant.NEGATED], -inputs[Variant.ORIGINAL])
    assert inputs[Variant.RESEEDED].shape == inputs[Variant.ORIGINAL].shape
    assert not torch.equal(inputs[Variant.RESEEDED], inputs[Variant.ORIGINAL])
    assert inputs[Variant.LARGER].shape == (19, 70)
    assert inputs[Variant.PRECISION].dtype == torch.float16
    assert runs[Variant.PRECISION].dtypes == ("float16",)


@pytest.mark.parametrize("task_id", ["l1-matmul-33cb351a575696c9", "l2-linear_chain-ccaeca99f262d9c4"])
def test_counterweights_leave_a_product_as_it_is(task_id: str) -> None:
    """One half of the inner dimension is faint in one operand and large in the other, and the result is the same."""
    task, oracle = render(task_id).task, Oracle(seed=3)
    weighed = describe(Variant.EXACT_PRODUCTS, task.dtypes)
    plain, changed = (oracle.expected(task, each) for each in (evolve(weighed, counterweight=0), weighed))
    assert np.allclose(plain.expected[0], changed.expected[0], rtol=1e-6)
    operand = changed.inputs[0]
    assert operand is not None
    half = operand.shape[1] // 2
    assert operand[:, :half].abs().mean() > 2.0**18 * operand[:, half:].abs().mean()


def test_terms_of_a_product_cancel() -> None:
    """What one half of the inner dimension adds up to is a hundred times as large as the result of both."""
    task, oracle = evolve(render("l1-matmul-33cb351a575696c9").task, dtypes=("float16",)), Oracle(seed=3)
    run = oracle.expected(task, describe(Variant.CANCELLING_PRODUCTS, task.dtypes))
    first, second = (each.double() for each in run.inputs if each is not None)
    half = first.shape[1] // 2
    assert np.allclose(first @ second, run.expected[0])
    assert 64.0 < float((first[:, :half] @ second[:half]).std()) / run.expected[0].std() < 256.0
    assert oracle.is_exact(task, describe(Variant.CANCELLING_PRODUCTS, task.dtypes))


def test_parameters_of_the_plans_own_have_no_counterweights() -> None:
    """A plan that lacks a parameter's name is given none of its values: both operands stay as they were."""
    task, oracle = render("l2-linear_chain-ccaeca99f262d9c4").task, Oracle(seed=3)
    weighed = describe(Variant.EXACT_PRODUCTS, task.dtypes)
    (given,) = oracle.expected(task, weighed, frozenset({"proj.weight"})).inputs
    (plain,) = oracle.expected(task, evolve(weighed, counterweight=0)).inputs
    assert given is not None
    assert plain is not None
    assert torch.equal(given, plain)


@pytest.mark.parametrize(
    ("task_id", "sizes"), [("l1-matmul-33cb351a575696c9", ("B",)), ("l2-linear_chain-ccaeca99f262d9c4", ("ROWS",))]
)
def test_a_batch_of_one_is_tried(task_id: str, sizes: tuple[str, ...]) -> None:
    """It is the leading dimension's size in the variant of other numbers, beside one size past a block where quick."""
    task, oracle = render(task_id).task, Oracle(seed=3)
    (name, one), *others = oracle.batch_of_one(task)
    assert ((name,), one) == (sizes, 1)
    assert [size for _, size in others] in ([], [1027])
    given = oracle.expected(task, describe(Variant.NUMBERS, task.dtypes)).inputs[0]
    assert given is not None
    assert given.shape[0] == 1


def test_an_axis_that_is_alone_has_one_element_past_a_block() -> None:
    """Where no batch may be one, a grid that is a block short shows by itself."""
    task, oracle = ADD, Oracle(seed=3)
    assert [size for _, size in oracle.batch_of_one(task)] == [1025]
    assert [size for _, size in oracle.inner_one(task)] == [1]


def test_the_signature_is_found_at_declared_sizes_without_values() -> None:
    """Shapes are the source's own, also where computing them would take terabytes."""
    huge = evolve(ADD, source=ADD.source.replace("65536", "1000000000000"))
    signature = Oracle(0).signature(huge)
    assert signature.shapes == ((10**12,),)
    assert signature.dtypes == ("float32",)
    assert signature.used_inputs == (0, 1)
    assert Oracle(0).signature(LINEAR).parameters == ("linear.weight", "linear.bias")


def test_an_ignored_input_is_not_counted_as_used() -> None:
    """Only inputs that change the result are used."""
    task = evolve(ADD, source=ADD.source.replace("x + y", "y.clone()"))
    assert Oracle(0).signature(task).used_inputs == (1,)


def test_build_describes_both_constructors() -> None:
    """Init arguments and input descriptions follow the profile's sizes and the dtype."""
    build = Oracle(0).build(LINEAR, Profile.TINY, "float16")
    assert json.loads(build.init_json) == {"args": [5, 7], "kwargs": {}}
    assert [(given.shape, given.dtype) for given in build.inputs] == [((3, 5), "float16")]


def test_operators_have_bytes_and_operations() -> None:
    """A linear layer with ReLU is two kernels of eager PyTorch, and 2MNK operations of a matrix product."""
    product, relu = Oracle(0).operators(LINEAR)
    assert product.matmul_flops == 2 * 128 * 512 * 256
    assert product.num_bytes == 4 * (128 * 512 + 512 * 256 + 256 + 128 * 256)
    assert (relu.matmul_flops, relu.num_bytes) == (0, 4 * 2 * 128 * 256)


def test_memory_is_bounded() -> None:
    """Results beyond the bound are dropped, the newest are kept, and asking again computes them again."""
    oracle = Oracle(0, max_cached_bytes=100_000)
    first = oracle.expected(ADD, ORIGINAL)
    for size in range(20):
        oracle.expected(evolve(ADD, small=(("SIZE", 2000 + size),)), ORIGINAL)
    assert oracle._kept._held_bytes <= 100_000 + 3 * 2020 * 8
    assert len(oracle._kept._results) < 20
    again = oracle.expected(ADD, ORIGINAL)
    assert again is not first
    assert np.array_equal(again.expected[0], first.expected[0])


@pytest.mark.parametrize(
    ("task", "message"),
    [
        (evolve(ADD, source="def f(:"), "does not import"),
        (evolve(ADD, source="x = 1", tiny=(), small=()), "no Model"),
        (evolve(ADD, source=ADD.source.replace("x + y", "x + z")), "running the reference"),
        (evolve(ADD, source=ADD.source.replace("x + y", "3")), "tensor"),
        (evolve(ADD, source=ADD.source.replace("torch.randn(SIZE), torch.randn(SIZE)", "")), "no tensor"),
        (evolve(ADD, small=(("NOTHING", 3),)), "NOTHING"),
    ],
)
def test_a_broken_task_says_what_is_wrong(task: Task, message: str) -> None:
    """Each way in which a reference can be unusable is a TaskError of one line."""
    with pytest.raises(TaskError, match=message) as caught:
        Oracle(0).expected(task, ORIGINAL)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_values_that_are_kept_are_those_that_go_through_float64(dtype: torch.dtype) -> None:
    """They are rounded once, to the same number, and are others in memory than what was drawn."""
    inputs = describe(Variant.RESEEDED, ("float32",))
    assert inputs.keeps_values
    drawn = torch.randn(7, 33)
    found = transform(drawn, inputs, dtype)
    assert found.data_ptr() != drawn.data_ptr()
    assert torch.equal(found, place_like(drawn, drawn.double().numpy(), dtype))
    apart = transform(drawn.T, inputs, dtype)
    assert torch.equal(apart, found.T)
    assert apart.stride() == drawn.T.stride()
