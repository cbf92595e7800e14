"""Tasks by composition: shapes, references, launches, splits."""

from __future__ import annotations

import ast
import re
from itertools import islice, pairwise

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tritonrl.core.corpus import SUITES, Split, examples, families, is_novel, novel_examples, render, split_of
from tritonrl.core.corpus.builder.draw import Draw
from tritonrl.core.corpus.builder.operations import RELU, RESIDUAL, apply
from tritonrl.core.corpus.builder.spec import Size
from tritonrl.core.corpus.builder.windows import Window
from tritonrl.core.corpus.catalogue import _draw_spec, _parse
from tritonrl.core.corpus.composition.lowering import group
from tritonrl.core.corpus.composition.program import Program, ProgramSpec
from tritonrl.core.corpus.composition.writing import write_program
from tritonrl.core.corpus.novelty import normalize
from tritonrl.core.corpus.registry import SUPERSEDED
from tritonrl.core.task import Example, Profile
from tritonrl.core.text.named_sizes import with_constants

FAMILIES = [(level, name) for level, names in families(4).items() for name in names]
task_ids = st.builds(
    lambda pair, seed: f"l{pair[0]}-{pair[1]}-{seed:016x}", st.sampled_from(FAMILIES), st.integers(0, 2**64 - 1)
)


def size(length: int) -> Size:
    """Return a dimension of one length in every profile."""
    return Size(declared=length, tiny=length, small=length, larger=length)


def run_reference(source: str) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return a reference's inputs and result."""
    module: dict[str, object] = {}
    exec(compile(source, "reference", "exec"), module)
    torch.manual_seed(0)
    model = module["Model"](*module["get_init_inputs"]())  # type: ignore[operator]
    inputs = module["get_inputs"]()  # type: ignore[operator]
    with torch.no_grad():
        return inputs, model(*inputs)


def test_no_log_sum_exp_undoes_a_log_softmax() -> None:
    """The logarithm of a sum that a softmax has made one is rounding errors, which no kernel can match."""
    for seed in range(3000):
        spec = _draw_spec("linear_then", seed)
        assert isinstance(spec, ProgramSpec)
        kinds = [(node.option("kind"), node.dims) for node in spec.nodes]
        for first, second in pairwise(kinds):
            assert (first[0], second[0]) != ("log_softmax", "logsumexp") or first[1] != second[1], seed


@settings(max_examples=150, deadline=None)
@given(task_ids)
@example("l3-recurrent_cell-bb3f8737529163c1")
def test_the_shape_of_a_program_is_what_pytorch_computes(task_id: str) -> None:
    """At tiny and at larger sizes the last node's shape is that of the reference's result."""
    spec = _draw_spec(task_id.split("-")[1], int(task_id.split("-")[2], 16))
    assert isinstance(spec, ProgramSpec)
    task = render(task_id).task
    for profile in (Profile.TINY, Profile.LARGER):
        _, result = run_reference(with_constants(task.source, task.constants(profile)))
        assert result.shape == tuple(getattr(dim.size, profile.value) for dim in spec.nodes[-1].shape)
        assert torch.isfinite(result.double()).all()


def test_an_answer_computes_no_number() -> None:
    """Layers that differ in their numbers and biases, and dimensions, have kernels and functions of one text."""
    for level, family, most in (
        (1, "any_conv", 9),
        (1, "any_conv_transpose", 6),
        (1, "any_pool", 6),
        (1, "any_matmul", 1),
        (1, "any_position", 2),
        (1, "any_softmax", 4),
    ):
        drawn = islice(examples(Split.TRAIN, level, 3, (f"field_{family}",)), 60)
        # functions and kernels follow the class
        assert len({made.solution.partition("class ModelNew")[2].partition("\n\n\n")[2] for made in drawn}) <= most


def drawn(level: int, *families: str) -> list[Example]:
    """Return examples of families, in the canonical form."""
    return list(islice(examples(Split.TRAIN, level, 3, families), 250))


def test_layers_of_own_weights_are_answered_by_functions_of_them() -> None:
    """A function of the model's own weights is answered by one of the same arguments, in a small part of the tasks."""
    made = [*drawn(1, "any_conv"), *drawn(2, "conv_then"), *drawn(2, "linear_then")]
    pattern = r"F\.(linear|conv\dd)\(\w+, self\.weight(, self\.bias)?([^()]*)\)"
    own = [(one, found) for one in made if (found := re.search(pattern, one.task.source))]
    assert 0.02 < len(own) / len(made) < 0.12
    for one, found in own:
        call = rf"\b{found[1]}\w*\(\w+, self\.weight{found[2] or ', None'}.*{found[3].strip(', ')}"
        assert re.search(call, one.solution.partition("class ModelNew")[2]), one.task.task_id


def test_answers_call_activations_that_are_written_out_what_they_are() -> None:
    """`x * torch.sigmoid(x)` is `silu` to an answer, whoever draws it, and `x - 0.5` is a subtraction."""
    made = [*drawn(1, "any_activation"), *drawn(2, "norm_then"), *drawn(2, "pool_then")]
    gated = [e for e in made if re.search(r"\bx \* torch\.sigmoid\(x\)|torch\.sigmoid\(x\) \* x\b", e.task.source)]
    assert len(gated) > 10
    assert all("silu" in one.solution and "sigmoid_gate" not in one.solution for one in gated)
    chains = [one.solution for one in made if one.task.level == 2]
    assert not any("shift=-" in solution for solution in chains)
    assert any("_minus" in solution for solution in chains)


@settings(max_examples=150, deadline=None)
@given(task_ids)
def test_launches_pass_what_kernels_name(task_id: str) -> None:
    """Each launch passes a value for each parameter, each function is called, and layers are given whole."""
    first, second = render(task_id), render(task_id)
    assert first == second
    tree = ast.parse(first.solution)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    kernels = {name: node.args.args for name, node in functions.items() if node.decorator_list}
    launched, called = set(), set()
    for call in ast.walk(tree):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Subscript)
            and isinstance(call.func.value, ast.Name)
        ):
            parameters = kernels[call.func.value.id]
            constants = {item.arg for item in parameters if item.annotation is not None}
            assert {item.arg for item in call.keywords} == constants
            assert len(call.args) == len(parameters) - len(constants)
            launched.add(call.func.value.id)
        elif isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in functions:
            assert len(call.args) + len(call.keywords) == len(functions[call.func.id].args.args)
            called.add(call.func.id)
    assert launched == set(kernels)
    assert called == set(functions) - set(kernels)
    forward = first.solution.partition("    def forward(")[2]
    assert ".eval()" in first.solution or not re.search(r"self\.\w+\.weight", forward)


def test_a_reference_computes_its_nodes() -> None:
    """A convolution, a ReLU, the mean over the sides and the input's mean are what a direct computation gives."""
    program = Program()
    shape = program.image(size(2), size(3), (size(6), size(5)))
    x = program.input(shape)
    window = Window(kernel=(3, 1), stride=(2, 1), padding=(1, 0), dilation=(1, 1))
    h = program.convolution(x, program.dim("out_channels", size(4)), window, bias=False, name="h")
    h = program.point(h, apply(RELU, Draw(0)))
    program.reduce(h, "mean", (2, 3), keeps=True)
    made = write_program(program.finish(2, "conv_then"), "l2-conv_then-0", Draw(0))
    (inputs,), result = run_reference(made.task.source)
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(3, 4, (3, 1), stride=(2, 1), padding=(1, 0), bias=False)
    expected = torch.relu(torch.nn.functional.conv2d(inputs, layer.weight, None, (2, 1), (1, 0)))
    torch.testing.assert_close(result, expected.mean(dim=(2, 3), keepdim=True).detach())
    assert made.solution.count("@triton.jit") == 2


def test_a_step_joins_a_kernel_only_where_nobody_else_reads_it() -> None:
    """A residual of the kernel's own result needs another launch; one of an input does not."""
    for reads_itself in (True, False):
        program = Program()
        x = program.input((program.dim("batch", size(4)), program.dim("features", size(5))))
        other = program.input(program.shape(x), "r")
        h = program.linear(x, program.dim("out_features", size(5)), name="h")
        y = program.point(h, apply(RELU, Draw(0)), name="y")
        program.point(y, apply(RESIDUAL, Draw(0)), "tensor", other=h if reads_itself else other)
        assert len(group(program.nodes)) == (2 if reads_itself else 1)


def test_dropout_in_evaluation_mode_is_the_identity() -> None:
    """In training mode no kernel could draw the mask that PyTorch draws."""
    program = Program()
    x = program.input((program.dim("batch", size(4)), program.dim("features", size(5))))
    program.point(program.dropout(x, 0.5), apply(RELU, Draw(0)))
    made = write_program(program.finish(2, "norm_then"), "l2-norm_then-0", Draw(0))
    inputs, result = run_reference(made.task.source)
    torch.testing.assert_close(result, torch.relu(inputs[0]))


def test_the_fourth_part_is_in_the_suite_of_the_field_alone() -> None:
    """The suites that results were published for have none of its families, and `field` has all that are of use.

    An older family that a composed one supersedes is left out there.
    """
    for level, name in FAMILIES:
        assert f"field_{name}" in SUITES["field"][level]
        assert all(name not in SUITES[suite].get(level, ()) for suite in ("core13", "full", "extended"))
    older = {name for level, names in families(1, 2, 3).items() for name in names}
    assert older >= SUPERSEDED
    assert {f"field_{name}" for name in older - SUPERSEDED} < set(SUITES["field"][1])
    assert len(families(4)[3]) >= 10
    assert SUITES["extended"] == families(1, 2, 3)


def test_every_family_has_tasks_of_every_split() -> None:
    """Streams of all splits go on, with distinct tasks of the split."""
    for split in Split:
        for level, name in FAMILIES:
            drawn = list(islice(examples(split, level, 3, (name,)), 2))
            assert len({each.task.source for each in drawn}) == 2
            assert all(split_of(each.task) is split for each in drawn)


def test_novel_chains_go_on_after_a_second_kernel() -> None:
    """What an older family could have written is not called novel, and novel chains have no kin in training."""
    trained = set()
    for drawn in islice(examples(Split.TRAIN, 2, 5, families(4)[2]), 300):
        _, family, seed = drawn.task.task_id.split("-")
        trained.add(normalize(_draw_spec(family, int(seed, 16))))  # type: ignore[arg-type]
    for drawn in islice(novel_examples(2, 5, families(4)[2]), 60):
        _, family, seed = drawn.task.task_id.split("-")
        assert is_novel(drawn.task)
        assert normalize(_draw_spec(family, int(seed, 16))) not in trained  # type: ignore[arg-type]


def test_a_norm_of_rows_is_novel_at_no_rank() -> None:
    """Training has it below other numbers of dimensions: the graph is the same."""
    for drawn in islice(novel_examples(1, 5, ("any_norm",)), 20):
        _, family, seed = drawn.task.task_id.split("-")
        assert len(_draw_spec(family, int(seed, 16)).nodes[-1].dims) == 4  # type: ignore[attr-defined]


@pytest.mark.slow
def test_teachers_are_right_on_the_interpreter() -> None:
    """The audit accepts a teacher of each family."""
    from tritonrl.harness.bench.verifier.false_rejects import GenuineKernel, verify_kernels
    from tritonrl.harness.settings import load_config

    kernels = [
        GenuineKernel(name=made.task.task_id, group=name, task=made.task, source=made.solution)
        for level, name in FAMILIES
        for made in islice(examples(Split.TRAIN, level, 11, (name,)), 1)
    ]
    figures = verify_kernels(load_config(settings=["verifier.backend=interpret"]), kernels, 2)
    assert figures.rejections == ()


def test_numbers_that_multiply_one_after_the_other_are_one() -> None:
    """A division by a number before a soft cap, which multiplies by one itself, makes no other composition."""
    divided, capped = (
        _draw_spec(*_parse(f"l2-field_linear_then-{seed}")) for seed in ("60d665d2fb8b8162", "9511a1d1b8d58372")
    )
    assert normalize(divided) == normalize(capped)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "task_id",
    [
        "l3-field_residual_block-9b8ece0eb286a9a0",
        "l3-field_residual_block-432e68bda2911f83",
        "l3-field_small_classifier-ee8e95eb758a62b2",
    ],
)
def test_layers_written_alike_keep_what_they_are_given(task_id: str) -> None:
    """An argument's default is not its value, and a loop over widths uses no name that the constructor reads later."""
    task = render(task_id).task
    for sizes in (task.tiny, task.small, task.larger):
        _, result = run_reference(with_constants(task.source, sizes))
        assert result.isfinite().all()
