"""Properties of the tasks and teachers of every family."""

from __future__ import annotations

import ast
import math
import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tritonrl.core.corpus import families, is_corpus_id, render
from tritonrl.core.task import Profile
from tritonrl.core.text.named_sizes import read_constants, with_constants

FIRST, SECOND = ([(level, name) for level, names in families(part).items() for name in names] for part in (1, 2))
task_ids = st.builds(
    lambda pair, seed: f"l{pair[0]}-{pair[1]}-{seed:016x}",
    st.sampled_from(FIRST) | st.sampled_from(SECOND),
    st.integers(0, 2**64 - 1),
)
ALLOCATIONS = {"empty", "empty_like", "zeros", "ones", "randn"}


def is_of_the_first_part(task_id: str) -> bool:
    """Whether the task is of a family that the shipped policy knows, whose forms are narrower."""
    task = render(task_id).task
    return (task.level, task.family) in FIRST


@settings(max_examples=200)
@given(task_ids)
def test_an_id_renders_the_same_example_each_time(task_id: str) -> None:
    """The id alone decides the task, the solution and the style, and the task carries the id."""
    first, second = render(task_id), render(task_id)
    assert first == second
    assert first.task.task_id == task_id
    assert is_corpus_id(task_id)


@settings(max_examples=200)
@given(task_ids)
@example("l1-row_loss-7adc74a023eced43")  # two inputs, the second called as results are
def test_sources_are_python_in_the_form_that_tasks_have(task_id: str) -> None:
    """Reference and solution compile and define what the form asks for, and every kernel is launched."""
    example = render(task_id)
    for source in (example.task.source, example.solution):
        compile(source, task_id, "exec")  # parsing alone lets a name be two arguments
    reference = {getattr(node, "name", "") for node in ast.parse(example.task.source).body}
    assert {"Model", "get_inputs", "get_init_inputs"} <= reference
    solution = ast.parse(example.solution).body
    assert solution[-1].name == "ModelNew"  # type: ignore[attr-defined]
    kernels = [node for node in solution if isinstance(node, ast.FunctionDef) and node.decorator_list]
    assert kernels
    assert all(f"{kernel.name}[" in example.solution for kernel in kernels)
    assert len(kernels) == 1 or not is_of_the_first_part(task_id)
    assert not re.search(r"[{}<]\w+[}>]", re.sub(r"[\w\])] < \w+", "", example.solution)), "a placeholder was left"


@settings(max_examples=200)
@given(task_ids)
def test_a_kernel_is_passed_what_it_names(task_id: str) -> None:
    """Each launch passes as many values as the kernel has parameters, and all of its constants by name."""
    tree = ast.parse(render(task_id).solution)
    kernels = {node.name: node.args.args for node in tree.body if isinstance(node, ast.FunctionDef)}
    for call in ast.walk(tree):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Subscript)
            and isinstance(call.func.value, ast.Name)
        ):
            parameters = kernels[call.func.value.id]
            constants = {item.arg for item in parameters if item.annotation is not None}
            keywords = {item.arg for item in call.keywords} - {"num_warps", "num_stages"}
            assert keywords == constants
            assert len(call.args) == len(parameters) - len(constants)


@settings(max_examples=200)
@given(task_ids)
@example("l2-batch_norm_chain-c7e0579a21ddfc04")  # an ELU's alpha, and a scale that was called so
def test_a_kernel_keeps_its_arguments(task_id: str) -> None:
    """No kernel assigns to one of its arguments, which later lines mean."""
    for node in ast.walk(ast.parse(render(task_id).solution)):
        if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(each) for each in node.decorator_list):
            stored = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
            assert stored.isdisjoint(argument.arg for argument in node.args.args)


@settings(max_examples=200)
@given(task_ids)
@example("l1-conv-0000000000000369")
def test_profiles_size_every_constant_and_grow(task_id: str) -> None:
    """Each profile sizes every module-level constant; tiny is a few elements, and larger exceeds small."""
    task = render(task_id).task
    names = list(read_constants(task.source))
    for profile in (Profile.TINY, Profile.SMALL, Profile.LARGER):
        assert [name for name, _ in task.constants(profile)] == names
        rewritten = with_constants(task.source, task.constants(profile))
        assert read_constants(rewritten) == dict(task.constants(profile))
    small, larger = dict(task.small), dict(task.larger)
    assert all(larger[name] >= small[name] for name in names)
    assert math.prod(larger.values()) > math.prod(small.values())
    # only on a line are convolutions so wide: nine taps three apart need 28 for two results with a stride of three
    most = 28 if "conv1d" in task.source.lower() else 24
    assert all(1 <= value <= most for _, value in task.tiny)
    if is_of_the_first_part(task_id):
        assert all(larger[name] > small[name] for name in names)
        assert all(2 <= value <= 13 for _, value in task.tiny)


@settings(max_examples=200)
@given(task_ids)
def test_a_solution_does_not_lean_on_the_reference(task_id: str) -> None:
    """The solution takes nothing from PyTorch's functions but memory, and no size from the task's module."""
    example = render(task_id)
    assert "F." not in example.solution
    tree = ast.parse(example.solution)
    calls = {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "torch"
    }
    assert calls <= ALLOCATIONS
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name == "forward":
            bound = {node.arg for node in function.args.args}
            bound |= {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            bound |= {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}
            known = {n.name for n in tree.body if isinstance(n, ast.FunctionDef)} | {
                "torch",
                "triton",
                "min",
                "max",
                "len",
            }
            used = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            assert used <= bound | known, used - bound - known
