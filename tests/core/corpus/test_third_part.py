"""The third part, which `full` does not have: rows of products, chains of two operations, masked products."""

from __future__ import annotations

from itertools import islice

import pytest
from tritonrl.core.corpus import ALL_FAMILIES, SUITES, Split, examples, is_corpus_id, render

STEPS = ("linear_step", "matmul_step", "norm_step", "conv_step", "transposed_conv_step", "pooling_step")


def test_the_third_part_is_in_the_widest_suite_alone() -> None:
    """`full`, which models were trained on, has the families that it had, in their order; `extended` has more."""
    assert SUITES["full"] == ALL_FAMILIES
    for level, names in SUITES["extended"].items():
        assert names[: len(ALL_FAMILIES[level])] == ALL_FAMILIES[level]
    assert SUITES["extended"][1][len(ALL_FAMILIES[1]) :] == ("masked_product",)
    assert SUITES["extended"][2][len(ALL_FAMILIES[2]) :] == ("product_rows", *STEPS)
    assert is_corpus_id("l2-product_rows-0000000000000000")


def test_a_chain_is_in_the_product_and_rows_are_read_once_more() -> None:
    """Two kernels: the first stores what the chain made, the second reads that alone; every tail and style is drawn."""
    tails, styles = set(), set()
    for example in islice(examples(Split.TRAIN, 2, 3, ("product_rows",)), 150):
        assert render(example.task.task_id) == example
        assert example.solution.count("@triton.jit") == 2
        first, second = example.solution.split("@triton.jit")[1:]
        assert "tl.dot" in first
        assert "tl.load" in second
        assert "tl.dot" not in second
        forward = example.task.source[example.task.source.index("def forward") :]
        tails.add(next(line for line in forward.splitlines() if "return" in line).split("(")[0].strip())
        styles.add(example.style.split("/")[0].rpartition("-")[2])
    assert {tail.removeprefix("return torch.") for tail in tails} == {
        *("softmax", "log_softmax", "logsumexp", "sum", "mean", "amax", "amin")
    }
    assert styles == {"row", "tile", "loop"}


@pytest.mark.parametrize("family", STEPS)
def test_a_chain_may_be_of_two_operations(family: str) -> None:
    """A producer and one step, in one kernel."""
    for example in islice(examples(Split.TRAIN, 2, 3, (family,)), 20):
        assert render(example.task.task_id) == example
        assert example.task.description.count(", then ") == 1
        assert example.solution.count("@triton.jit") == 1


def test_what_a_masked_product_leaves_out_is_one() -> None:
    """In reference and kernel, along either dimension."""
    styles = set()
    for example in islice(examples(Split.TRAIN, 1, 3, ("masked_product",)), 40):
        assert render(example.task.task_id) == example
        assert "torch.cumprod(" in example.task.source
        assert "1.0)" in example.task.source[example.task.source.index("cumprod") :].splitlines()[0]
        assert ", 1.0)" in example.solution
        styles.add(example.style.split("/")[0])
    assert len(styles) > 2
