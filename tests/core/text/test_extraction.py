"""Extraction finds the code in any form of answer, and survives any text."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.core.text.extraction import extract

CODE = '''import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, BLOCK: tl.constexpr):
    """Uses `x`, not ```y```."""
    tl.store(x, BLOCK)


class ModelNew(torch.nn.Module):
    note = "<|im_end|> and </think>"

    def forward(self, x):
        return x
'''
SHORT = "class ModelNew:\n    pass\n"
REFERENCE = "import torch\n\n\nclass Model(torch.nn.Module):\n    pass\n"

codes = st.sampled_from((CODE, SHORT, "# a comment\n" + CODE, "\n" + CODE))
fences = st.sampled_from(("```", "````", "~~~", "~~~~~"))
infos = st.sampled_from(("", "python", "py", " Python3 title=x.py", "triton", "{.python}"))
befores = st.sampled_from(
    (
        "",
        "Here is it:\n",
        "Use `tl.load`.\n\n",
        "<think>\nplan `x`\n```python\nclass ModelNew: draft\n```\n</think>\n\n",
        "a thought from the prompt\n</think>\n",
        "<|im_start|>assistant\n",
        "[/INST] ",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        f"The reference:\n```python\n{REFERENCE}```\nand mine:\n",
        "```bash\npip install triton\n```\n",
    )
)
afters = st.sampled_from(
    ("", "\n", "\nDone.\n", "<|im_end|>", "\n<|im_end|>\n<|im_start|>user\n```\nnext\n```\n", "</s>", "\n<|eot_id|>",
     "\n```text\n" + "output\n" * 200 + "```\n")
)  # fmt: skip


@given(codes, fences, infos, befores, afters, st.booleans())
def test_fenced_code_comes_back_as_it_is(
    code: str, fence: str, info: str, before: str, after: str, windows: bool
) -> None:
    """Whatever surrounds a fence, exactly its content is extracted."""
    text = f"{before}{fence}{info}\n{code}{fence}{after}"
    assert extract(text.replace("\n", "\r\n") if windows else text) == code


@given(codes, infos, befores, st.sampled_from(("", "<|im_end|>", "</s>", "<|endoftext|>\n")))
def test_an_unclosed_fence_ends_with_the_completion(code: str, info: str, before: str, after: str) -> None:
    """A completion that never closes its fence still offers its code, without the template's residue."""
    found = extract(f"{before}```{info}\n{code}{after}")
    assert found is not None
    assert found.rstrip("\n") == code.rstrip("\n")


@pytest.mark.parametrize("before", ["", "Sure\n", "Sure! Here it is:\n\n", "<think>a plan</think>\n"])
@pytest.mark.parametrize("after", ["", "\n\nThis kernel is fast.", "<|im_end|>"])
def test_code_without_a_fence_is_found(before: str, after: str) -> None:
    """Plain code is an answer, and prose around it is not part of it."""
    found = extract(before + CODE + after)
    assert found is not None
    assert found.rstrip("\n") == CODE.rstrip("\n")


@pytest.mark.parametrize(
    ("marker", "indent"), [("1. ```py", "   "), ("- ```", "  "), ("> ~~~", "> "), ("   ```", "   ")]
)
def test_an_indented_fence_loses_its_indentation(marker: str, indent: str) -> None:
    """Fences in lists and quotes hold code at its own indentation."""
    body = "".join(f"{indent}{line}\n" for line in CODE[:-1].split("\n"))
    close = indent + ("~~~" if "~" in marker else "```")
    assert extract(f"{marker}\n{body}{close}\n") == CODE


def test_an_indented_fence_around_code_that_is_not_keeps_the_code() -> None:
    """Code that starts left of its fence is not bent by the fence's indentation."""
    assert extract(f"1. Here:\n   ```python\n{CODE}   ```\n") == CODE


def test_a_docstring_may_hold_a_fence() -> None:
    """A block that does not parse is continued past the fence that cut it."""
    code = 'class ModelNew:\n    """Use:\n```\nx\n```\n    """\n'
    assert extract(f"```python\n{code}```\nDone.") == code


def test_the_last_version_that_parses_wins() -> None:
    """A repaired version replaces the draft, and a truncated one does not."""
    first, second = SHORT, "class ModelNew:\n    y = 2\n"
    assert extract(f"```\n{first}```\nBetter:\n```\n{second}```") == second
    assert extract(f"```\n{first}```\nBetter:\n```\nclass ModelNew:\n    def f(") == first


def test_a_thought_is_no_answer() -> None:
    """A draft in a closed thought is dropped; behind an unclosed one a fence is the only offer there is."""
    assert extract(f"<think>\n```python\n{SHORT}```\n</think>\nI give up.") is None
    assert extract(f"<think>\n```python\n{SHORT}```\nHmm") == SHORT


@pytest.mark.parametrize(
    "text", ["", "I cannot do that.", "import is a word", "```\n```", "<think>", "</s>", "\x00", "\ud800"]
)
def test_a_text_without_code_offers_none(text: str) -> None:
    """Prose is not mistaken for code."""
    assert extract(text) is None


pieces = st.sampled_from(
    ("```", "~~~", "\n", "\r", "<think>", "</think>", "<|im_end|>", "[INST]", "class ModelNew:", " ", "\t", "- ", "> ",
     "1. ", "import a", "(", "'''", "\x00", "\ud800", "\u2028", "def f", "x")
)  # fmt: skip


@settings(max_examples=300)
@given(st.one_of(st.text(), st.lists(pieces, max_size=60).map("".join)))
def test_any_text_gives_text_or_none(text: str) -> None:
    """No completion crashes the extractor, and nothing is offered that is blank."""
    found = extract(text)
    assert found is None or found.strip()


@pytest.mark.parametrize(
    "text",
    ["`" * 200_000, "```\n" * 50_000, "- " * 100_000, "```\nx\n```\n" + ">" * 200_000, "\n<think>" * 25_000,
     "import a\n" + "(" * 190_000, "import a\nx=" + "-" * 190_000 + "1", "import a\nx=a" + ".a" * 95_000,
     "```python\nclass ModelNew\n```\n" * 8_000, " " * 300_000],
    ids=["ticks", "fences", "lists", "quotes", "thoughts", "parentheses", "signs", "attributes", "blocks", "spaces"],
)  # fmt: skip
def test_hostile_text_is_survived(text: str) -> None:
    """Text made to exhaust a parser comes back without an exception."""
    found = extract(text)
    assert found is None or found.strip()
