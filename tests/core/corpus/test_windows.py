"""Convolutions and pooling: what their windows promise, and what their teachers look like."""

from __future__ import annotations

import ast
from collections import Counter
from itertools import islice
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.corpus import ALL_FAMILIES, Split, examples, is_corpus_id, render, split_of
from tritonrl.core.corpus.builder.draw import Draw
from tritonrl.core.corpus.builder.windows import Window, draw_pooling_window, draw_sides, draw_window
from tritonrl.core.corpus.catalogue import NAMED, _draw_spec
from tritonrl.core.text.named_sizes import read_constants

KINDS = ("conv", "pool")
PAIRS = [
    (level, name) for level, names in ALL_FAMILIES.items() for name in names if any(kind in name for kind in KINDS)
]
task_ids = st.builds(
    lambda pair, seed: f"l{pair[0]}-{pair[1]}-{seed:016x}", st.sampled_from(PAIRS), st.integers(0, 2**64 - 1)
)
seeds = st.integers(0, 2**64 - 1)
ranks = st.sampled_from((1, 2, 3))


def windows(seed: int, rank: int) -> list[Window]:
    draw = Draw(seed)
    return [
        draw_window(draw, rank),
        draw_window(draw, rank, is_transposed=True),
        draw_window(draw, rank, is_direct=True),
        draw_pooling_window(draw, rank, (1, 1, 1, 2)),
    ]


@given(seeds, ranks, st.integers(0, 40))
def test_a_result_is_as_long_as_the_windows_that_fit(seed: int, rank: int, more: int) -> None:
    """The expression for the host, the count, and the places counted one by one agree."""
    for window in windows(seed, rank):
        for side in range(rank):
            length = window.least(side) + more
            shown = eval(window.length(side, "n"), {"n": length})
            assert shown == window.count(side, length)
            if window.is_transposed:
                last = (length - 1) * window.stride[side] + window.reach(side)
                places = range(window.padding[side], last - window.padding[side] + window.extra[side])
            else:
                places = range(0, length + 2 * window.padding[side] - window.reach(side) + 1, window.stride[side])
            assert shown == len(places) >= 1


@given(seeds, ranks)
def test_windows_fit_at_every_profile(seed: int, rank: int) -> None:
    """A result has an element at all profiles, and larger sides than small ones."""
    for window in windows(seed, rank):
        sides = draw_sides(Draw(seed), window, 10_000)
        for side, size in enumerate(sides):
            assert size.larger > size.small
            for length in (size.declared, size.tiny, size.small, size.larger):
                assert window.count(side, length) >= 1


@given(seeds, ranks)
def test_padding_of_a_pooling_is_at_most_half_its_width(seed: int, rank: int) -> None:
    """PyTorch refuses more, and no window may lie in the padding alone."""
    window = draw_pooling_window(Draw(seed), rank)
    assert all(2 * pad <= width for pad, width in zip(window.padding, window.kernel, strict=True))


@given(task_ids)
def test_launches_pass_what_kernels_take(task_id: str) -> None:
    """Every kernel is launched once, with its parameters in order, and reads all of them."""
    solution = ast.parse(render(task_id).solution)
    kernels = {node.name: node for node in solution.body if isinstance(node, ast.FunctionDef) and node.decorator_list}
    launches = [
        node
        for node in ast.walk(solution)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript) and isinstance(node.func.value, ast.Name)
    ]
    assert sorted(kernels) == sorted(node.func.value.id for node in launches)  # type: ignore[attr-defined]
    for launch in launches:
        kernel = kernels[launch.func.value.id]  # type: ignore[attr-defined]
        names = [argument.arg for argument in kernel.args.args]
        named = [keyword.arg for keyword in launch.keywords]
        assert len(set(names)) == len(names)
        assert names[len(launch.args) :] == named
        read = {node.id for node in ast.walk(kernel) if isinstance(node, ast.Name)}
        assert set(names) <= read


@given(task_ids)
def test_half_precision_contracts_are_cast(task_id: str) -> None:
    """Where the contract lists float16 every element that is loaded becomes float32, and elsewhere none does."""
    example = render(task_id)
    loads, casts = example.solution.count("tl.load("), example.solution.count(".to(tl.float32)")
    assert casts == (loads if "float16" in example.task.dtypes else 0)


@given(task_ids)
def test_declared_sizes_are_soon_computed(task_id: str) -> None:
    """An input has at most four million elements; every constant is rewritten by each profile."""
    task = render(task_id).task
    constants = read_constants(task.source)
    spatial = list(constants.values())
    spec = _draw_spec(task.family, int(task.task_id[-16:], 16))
    channels = 2 if spec.sizes[0].declared * prod(spatial[1:]) <= 4_000_000 else 3
    assert spatial[0] * spatial[1] * prod(spatial[channels:]) <= 4_200_000
    for profile in (task.tiny, task.small, task.larger):
        assert [name for name, _ in profile] == list(constants)


@pytest.mark.parametrize(("level", "family"), PAIRS)
def test_a_family_is_drawn_in_every_rank_and_several_styles(level: int, family: str) -> None:
    """One, two and three dimensions turn up, in several styles, and all tasks differ."""
    drawn = list(islice(examples(Split.TRAIN, level, 1, [family]), 150))
    assert {example.task.description[0] for example in drawn} == {"1", "2", "3"}
    assert len(Counter(example.style for example in drawn)) >= (2 if family == "pointwise_conv" else 4)
    assert len({example.task.source for example in drawn}) == len(drawn)


@pytest.mark.parametrize(
    ("name", "producer", "steps"),
    [("gemm-bias-relu", "nn", ["bias", "relu"]), ("conv-bn-relu", "conv2d_norm", ["relu"])],
)
def test_the_study_s_tasks_have_names_and_are_for_training(name: str, producer: str, steps: list[str]) -> None:
    """The name renders the id's example, which is what the name says and in the training split."""
    example = render(name)
    assert example == render(NAMED[name])
    assert is_corpus_id(name)
    assert split_of(example.task) is Split.TRAIN
    spec = _draw_spec(example.task.family, int(example.task.task_id[-16:], 16))
    assert spec.producer == producer
    assert [applied.operation.name for applied in spec.chain] == steps
