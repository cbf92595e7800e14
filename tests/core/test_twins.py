"""Programs are twins where nothing but names differs, and where nobody can tell by what."""

from __future__ import annotations

import ast
import builtins
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.core.corpus import render
from tritonrl.core.twins import form_of
from tritonrl.harness.bench.mutation.enumerate import enumerate_mutants

from .corpus.test_families import task_ids

PROGRAM = """
import torch
import torch.nn as nn
import triton
import triton.language as tl

LIMIT = 4


@triton.jit
def add_kernel(a_ptr, b_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(b_ptr + offsets, tl.load(a_ptr + offsets, mask=mask) + 1.0, mask=mask)


def launch(values, result, number):
    add_kernel[(triton.cdiv(number, 128),)](values, result, number, BLOCK=128)
    return result


class ModelNew(nn.Module):
    scale = 3

    def __init__(self, width):
        super().__init__()
        self.width = width

    def forward(self, x):
        out = torch.empty_like(x)
        return launch(x, out, x.numel())
"""


class Renaming(ast.NodeTransformer):
    """The program with some identifiers called otherwise."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(id=self.names.get(node.id, node.id), ctx=node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(arg=self.names.get(node.arg, node.arg), annotation=node.annotation)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self.names.get(node.name, node.name)
        return self.generic_visit(node)


def rename(source: str, names: dict[str, str]) -> str:
    """The source with those identifiers renamed, laid out anew."""
    return ast.unparse(Renaming(names).visit(ast.parse(source)))


def own_names(source: str) -> list[str]:
    """What a teacher's kernels bind and nobody else knows: their variables, and parameters that no launch names."""
    tree = ast.parse(source)
    known = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    known |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    kernels = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.decorator_list]
    bound = {node.arg for kernel in kernels for node in ast.walk(kernel) if isinstance(node, ast.arg)}
    stored = (node for kernel in kernels for node in ast.walk(kernel) if isinstance(node, ast.Name))
    bound |= {node.id for node in stored if isinstance(node.ctx, ast.Store)}
    methods = [node for body in tree.body if isinstance(body, ast.ClassDef) for node in ast.walk(body)]
    known |= {node.arg for node in methods if isinstance(node, ast.arg)}
    known |= {word for node in ast.walk(tree) if isinstance(node, ast.Constant) for word in str(node.value).split()}
    return sorted(bound - known - set(dir(builtins)))


@settings(max_examples=100)
@given(task_ids, st.randoms(use_true_random=False))
def test_a_renamed_teacher_is_a_twin(task_id: str, randomness: random.Random) -> None:
    """Other names for what kernels bind, comments and another layout leave the form as it is."""
    source = render(task_id).solution
    names = own_names(source)
    others = [f"fresh_{number}" for number in range(len(names))]
    randomness.shuffle(others)
    form = form_of(source)
    assert form is not None
    assert form_of("# a comment\n" + rename(source, dict(zip(names, others, strict=True)))) == form


@settings(max_examples=50)
@given(task_ids)
def test_a_mutant_is_no_twin(task_id: str) -> None:
    """A mistake changes the form, also one that takes one name for another."""
    source = render(task_id).solution
    form = form_of(source)
    for mutant in enumerate_mutants(source):
        assert form_of(mutant.source) != form


def test_two_names_must_not_become_one() -> None:
    """A renaming that confuses two variables is none."""
    assert form_of(rename(PROGRAM, {"b_ptr": "c_ptr"})) == form_of(PROGRAM)
    assert form_of(rename(PROGRAM, {"b_ptr": "a_ptr"})) != form_of(PROGRAM)


@pytest.mark.parametrize("name", ["add_kernel", "launch", "values", "offsets", "mask", "LIMIT", "n", "out"])
def test_names_of_its_own_may_differ(name: str) -> None:
    """Variables, functions, constants, and parameters that are passed by position."""
    source = PROGRAM if name != "mask" else PROGRAM.replace("mask=mask", "mask=(mask)")
    is_twin = form_of(rename(source, {name: "another"})) == form_of(source)
    assert is_twin == (name != "mask"), "a name that is a keyword somewhere keeps it"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("self.width", "self.height"),
        ("scale = 3", "call_super_init = 3"),
        ("def forward(self, x):\n        out = torch.empty_like(x)", "def forward(self, y):\n        out = x = y"),
        ("def __init__(self, width)", "def __init__(self, features, width=3)"),
        ("BLOCK", "SIZE"),
        ("LIMIT", "range"),
        ("class ModelNew", "class ModelOther"),
        ("128)", "129)"),
        ("+ 1.0", "+ 1"),
    ],
)
def test_what_others_know_must_not_differ(before: str, after: str) -> None:
    """Attributes, what classes bind, parameters of methods, keywords, builtins and numbers are part of the form."""
    assert before in PROGRAM
    changed = PROGRAM.replace(before, after)
    assert form_of(changed) is not None
    assert form_of(changed) != form_of(PROGRAM)


def test_words_in_strings_keep_their_names() -> None:
    """A string that says a name may be about it."""
    spoken = PROGRAM.replace("LIMIT = 4", "LIMIT = 'offsets, among others'")
    assert form_of(rename(spoken, {"offsets": "places"})) != form_of(spoken)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import torch\n", "import sys\nimport torch\n"),
        ("import torch\n", "from math import *\nimport torch\n"),
        ("import torch\n", "from . import names\nimport torch\n"),
        ("return result", "return result if len(add_kernel.arg_names) else values"),
        ("return result", "return [result, values][len(launch.__name__) % 2]"),
        ("return result", "return [result, values][len(type(number).mro())]"),
        ("return result", "return [result, values][len(str(number))]"),
        ("return result", "kernel = add_kernel\n    return result"),
        ("return result", "return launch"),
        ("return result", "return [result][len(vars())]"),
        (
            "    return result",
            "    try:\n        return unknown\n    except NameError as error:\n        return error.args",
        ),
        ("    add_kernel[", "    compiled = add_kernel["),
        ("@triton.jit", "@launch\n@triton.jit"),
        ("@triton.jit", "@launch(1, 2, 3)\n@triton.jit"),
        ("    scale = 3", "    def __getattr__(self, name):\n        return name"),
        ("LIMIT = 4", "LIMIT = __name__"),
        ("LIMIT = 4", "LIMIT__fp32 = 4"),
        ("LIMIT = 4", "grenze_für_alle = 4"),
        ("return result", "return [result][len(ascii(number))]"),
        ("    return result", "    global LIMIT\n    LIMIT = 5\n    return result"),
        ("def launch(", "def launch(:"),
    ],
)
def test_a_program_that_could_tell_its_names_has_no_twins(before: str, after: str) -> None:
    """Reflection, exceptions, objects of functions, what launches return: then names may decide what happens."""
    assert before in PROGRAM
    assert form_of(PROGRAM) is not None
    assert form_of(PROGRAM.replace(before, after, 1)) is None
