"""Products followed by what needs whole rows: the third part, which the suites before it do not have."""

from __future__ import annotations

from itertools import islice

from tritonrl.core.corpus import ALL_FAMILIES, SUITES, Split, examples, is_corpus_id, render


def test_the_third_part_is_in_the_widest_suite_alone() -> None:
    """`whole`, which models were trained on, has the families that it had, in their order; `wide` has one more."""
    assert SUITES["whole"] == ALL_FAMILIES
    for level, names in SUITES["wide"].items():
        assert names[: len(ALL_FAMILIES[level])] == ALL_FAMILIES[level]
    assert SUITES["wide"][2][len(ALL_FAMILIES[2]) :] == ("product_rows",)
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
