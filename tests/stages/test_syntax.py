"""The AST stage: what it refuses, what it must not refuse, and that no text breaks it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonrl.core.outcome import Outcome
from tritonrl.stages.scopes import MAX_STEPS, Names, TooEntangled
from tritonrl.stages.syntax import ALLOWED_MODULES, count_compiled, inspect_source, judge_syntax

from .evidence import SOURCE, candidate


def outcome(source: str) -> Outcome:
    """What the stage says of a text."""
    failure = inspect_source(source)
    return Outcome.PASSED if failure is None else failure.outcome


def test_a_plain_candidate_passes() -> None:
    """The ordinary form passes, and its seconds are those of the evidence."""
    result = judge_syntax(candidate(ast_seconds=0.25))
    assert result.passed
    assert result.seconds == 0.25


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("import triton\n", "import triton as tr\n"),
        ("import triton\n", "import triton\nfrom triton import jit\n"),
        ("@triton.jit", "@triton.autotune(configs=[triton.Config({})], key=['n'])\n@triton.jit"),
        ("@triton.jit", "@triton.jit(do_not_specialize=['n'])"),
        ("import torch\n", "from __future__ import annotations\nimport math\nimport functools\nimport torch\n"),
        ("import torch\n", "from typing import Optional\nfrom triton.language.extra import libdevice\nimport torch\n"),
        ("import torch\n", "import torch.nn.functional as F\nimport torch\n"),
        ("import torch\n", "from triton.runtime import driver\nimport torch\nDEVICE = driver.active\n"),
        ("import torch\n", "from triton.runtime import driver as d\nimport torch\n"),
        (
            "kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)",
            "kernel.run(x, out, x.numel(), BLOCK=128, grid=(1,), warmup=False)",
        ),
        ("        return out", "        self.last = getattr(self, 'training', False)\n        return out"),
        ("        return out", "        print(self.__class__.__name__)\n        return out"),
        ("def forward(self, x):", "def forward(self, input):\n        x = input"),
        ("class ModelNew", "def compile(x):\n    return x\n\n\nclass ModelNew"),
        ("        return out", "        assert x.is_cuda and torch.cuda.is_available\n        return out"),
        ("class ModelNew", "torch.backends.cuda.matmul.allow_tf32 = True\n\n\nclass ModelNew"),
        ("class ModelNew", "def pick(torch):\n    return torch.compile\n\n\nclass ModelNew"),
        ("class ModelNew", "class Plan:\n    _size = 4\n\n\nSIZE = Plan()._size\n\n\nclass ModelNew"),
        ("        return out", "        self._buffers['kept'] = out\n        return out"),
        ("        return out", "        for exec in range(2):\n            print(exec)\n        return out"),
        ("        return out", "        self.scale = getattr(self, '_scale', 1)\n        return out"),
        ("class ModelNew", "import logging\nlog = logging.getLogger(__name__)\n\n\nclass ModelNew"),
        ("class ModelNew", "if __name__ == '__main__':\n    print(1)\n\n\nclass ModelNew"),
        ("        return out", "        kernel.warmup(x, grid=(1,))._init_handles()\n        return out"),
        (
            "class ModelNew",
            "for name in ('float8', 'half'):\n    getattr(torch, name, None)\n\n\nclass ModelNew",
        ),
        ("class ModelNew", "KINDS = ('half', 'int')\nT = [getattr(torch, k) for k in KINDS[:1]]\n\n\nclass ModelNew"),
        (
            "class ModelNew",
            "SIZES = {16, 32}\nprint(sorted({'a'}), [s for s in SIZES])\n\n\nclass ModelNew",
        ),
        ("class ModelNew", "name = 'half'\nHALF = getattr(torch, name, None)\n\n\nclass ModelNew"),
    ],
)
def test_genuine_styles_pass(old: str, new: str) -> None:
    """Aliases, decorators and names that genuine kernels use are no offence."""
    source = SOURCE.replace(old, new)
    if "as tr" in new:
        source = source.replace("triton.jit", "tr.jit").replace("triton.cdiv", "tr.cdiv")
    assert outcome(source) is Outcome.PASSED


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", Outcome.NO_CODE),
        ("   \n\t", Outcome.NO_CODE),
        ("def f(:", Outcome.SYNTAX_ERROR),
        ("x = 1\0", Outcome.SYNTAX_ERROR),
        ("x = '\ud800'", Outcome.SYNTAX_ERROR),
        ("(" * 100_000, Outcome.SYNTAX_ERROR),
        ("x = " + "-" * 90_000 + "1", Outcome.SYNTAX_ERROR),
        ("x = " + "9" * 10_000, Outcome.SYNTAX_ERROR),
        ("a" + ".a" * 90_000, Outcome.SYNTAX_ERROR),
        ("#" * 300_000, Outcome.SYNTAX_ERROR),
        ("x = 1", Outcome.NO_MODEL),
        (SOURCE.replace("forward", "run"), Outcome.NO_MODEL),
        (SOURCE.replace("@triton.jit", ""), Outcome.NO_KERNEL),
        (SOURCE.replace("@triton.jit", "@torch.no_grad()"), Outcome.NO_KERNEL),
        (SOURCE.replace("kernel[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)", ""), Outcome.NO_LAUNCH),
    ],
)
def test_what_lacks_the_form_is_named(source: str, expected: Outcome) -> None:
    """Each missing part of the form has its own outcome, and no text crashes or hangs the stage."""
    assert outcome(source) is expected


@pytest.mark.parametrize(
    "line",
    [
        *("import os", "import numpy as np", "from sys import exit", "import torch.utils.cpp_extension"),
        *("from . import x", "from .triton.runtime import driver", "import triton.runtime"),
        *("from triton.runtime import jit", "from triton.runtime import driver, cache", "from triton.runtime import *"),
    ],
)
def test_other_modules_are_refused(line: str) -> None:
    """Only the modules that a kernel needs can be imported."""
    assert outcome(f"{line}\n{SOURCE}") is Outcome.FORBIDDEN_IMPORT


@pytest.mark.parametrize(
    "line",
    [
        "exec('x = 1')",
        "run = eval",
        "open('/etc/passwd')",
        "__import__('os')",
        "torch.compile(torch.relu)",
        "c = torch\nc.compile(torch.relu)",
        "from torch import compile as fast",
        "torch.ops.aten.add(1, 2)",
        "torch.overrides.is_tensor_method_or_property(len)",
        "nn.functional.has_torch_function_unary(1)",
        "[nn][0].functional.has_torch_function((1,))",
        "helper.cache_info()",
        "torch._C._jit_get_operation('aten::add')",
        "getattr(torch, 're' + 'lu')",
        "getattr(torch, '_C')",
        "torch.allclose = lambda *a: True",
        "setattr(torch, 'allclose', None)",
        "().__class__.__base__.__subclasses__()",
        "torch.__dict__['relu']",
        "torch.cuda.Stream()",
        "def f():\n    return globals()",
        "g = (i for i in ())\ng.gi_frame",
        "g = (i for i in ())\ng.gi_code",
        "torch.from_file('/etc/passwd', size=9)",
        "torch.torch.load('x')",
        "nn.functional.torch.ops.aten.add(1, 2)",
        "nn.modules.module.functools.torch.hub",
        "tl.core.knobs.runtime.interpret",
        "from torch.nn.modules.module import torch as again\nagain.compile",
        "first, second = torch, triton\nfirst.compile(torch.relu)",
        "(library := torch).compile(torch.relu)",
        "library = torch if torch.version else triton\nlibrary.compile(torch.relu)",
        "def run(t=torch):\n    return t.compile(t.relu)",
        "class Kept:\n    library = torch\n\n    def run(self):\n        return self.library.compile",
        "class Kept:\n    def __init__(self):\n        self.t = torch\n\n    def run(self):\n        self.t.compile",
        "def run():\n    from torch import compile as c\n    return c",
        "getattr(torch, 'compile')",
        "c = torch\nc.cuda.synchronize = lambda: None",
        "torch.cuda.synchronize: object = None",
        "for torch.allclose in (None,):\n    pass",
        "import contextlib\ncontextlib.sys.exit()",
        "from torch import os",
        "triton.knobs.runtime.interpret",
        "from triton.runtime import driver\ndriver.active = None",
        "kernel.fn = None",
        "kernel._unsafe_update_src('')",
        "eval = eval\neval('1')",
        "class Kept:\n    eval = eval",
        "def f(x: eval('1')) -> None:\n    pass",
        "def f(x) -> eval('1'):\n    pass",
        "f = lambda x=eval('1'): x",
        "class Kept(metaclass=eval('type')):\n    pass",
        "match 1:\n    case x if eval('1'):\n        pass",
        "print(f'{eval(1)}')",
        "def f():\n    global open\n    open = None\nopen('/etc/passwd')",
        "for name in ('half', 'compile'): getattr(torch, name)",
        "names = ('half',)\nnames = ('compile',)\n[getattr(torch, name) for name in names]",
        "names = ['half']\nnames.append('compile')\n[getattr(torch, name) for name in names]",
        "def pick(name='half'): return getattr(torch, name)",
        "name = 'com'\nname += 'pile'\ngetattr(torch, name)",
        "for name in ('half',):\n    name = str(1)\n    getattr(torch, name)",
        "for name in ('__class__',): getattr(torch, name)",
        "hash('text')",
        "list({'left', 'right'})[0]",
        "KINDS = {'a', 'b'}\nfor kind in KINDS: print(kind)",
        "first, second = frozenset(['a', 'b'])",
        "print({name for name in 'ab'}.pop())",
        "','.join(set('ab'))",
        "print(__name__)",
        "print(__name__ == 'candidate')",
        "import logging\nlogging.sys",
    ],
)
def test_reaching_elsewhere_is_refused(line: str) -> None:
    """Names that reach interpreter, file system or compiled operators are refused through aliases too."""
    assert outcome(f"{SOURCE}\n{line}\n") is Outcome.FORBIDDEN_NAME


LIST_MODULES = """
import sys, triton.language, torch.nn
from types import ModuleType

for name, module in list(sys.modules.items()):
    if name.partition(".")[0] in ("torch", "triton") and "._" not in name and isinstance(module, ModuleType):
        for attribute, value in list(vars(module).items()):
            if isinstance(value, ModuleType) and not attribute.startswith("_"):
                print(f"{name}.{attribute}", value.__name__)
"""


def test_modules_that_allowed_ones_import_are_refused() -> None:
    """Whatever a public path below torch or triton leads to is theirs, may be imported anyway, or is refused."""
    # a process of its own, since what else was imported in this one has paths too
    listed = subprocess.run([sys.executable, "-W", "ignore", "-c", LIST_MODULES], capture_output=True, text=True)
    pairs = [line.split() for line in listed.stdout.splitlines()]
    foreign = [
        path
        for path, module in pairs
        if module.partition(".")[0] not in ("torch", "triton") and module not in ALLOWED_MODULES
    ]
    assert "torch.os" in foreign
    assert [path for path in foreign if inspect_source(f"{SOURCE}\n{path}\n") is None] == []


@given(st.text(max_size=200))
@settings(max_examples=200)
def test_no_text_raises(text: str) -> None:
    """Whatever the text, the answer is an outcome, and a text without the form never passes."""
    assert outcome(text) is not Outcome.PASSED


@given(st.integers(0, len(SOURCE)), st.integers(0, len(SOURCE)))
@settings(max_examples=100)
def test_no_cut_source_raises(start: int, end: int) -> None:
    """A source with a piece cut out gets an outcome as well."""
    assert isinstance(outcome(SOURCE[:start] + SOURCE[end:]), Outcome)


def _alias_chain(num_lines: int) -> str:
    return "import torch as x0\n" + "".join(f"x{at + 1} = x{at}.nn if x0 else x{at}.fx\n" for at in range(num_lines))


@pytest.mark.parametrize(
    "write",
    [
        _alias_chain,
        lambda n: "import torch as x0\n" + "".join(f"x{at + 1} = x{at}\n" for at in range(n)),
        lambda n: "import torch\n" + "x = torch.nn if torch else torch.fx\n" * n,
        lambda n: "import torch\nx = torch\n" + "x = x.nn if x else x.fx\n" * (n // 100),
        lambda n: "import torch\n" + "=".join(f"a{at}" for at in range(n)) + " = torch.nn\n",
    ],
)
def test_the_work_of_reading_names_grows_with_the_text(write: Callable[[int], str]) -> None:
    """Twice the text takes about twice the look-ups, and no name stands for more than a few paths."""

    def read(num_lines: int) -> tuple[int, int]:
        try:
            names = Names(ast.parse(write(num_lines)))
        except TooEntangled:
            return 0, 0
        return names.num_steps, max(len(path) for paths in names.module.bound.values() for path in paths | {""})

    (few, short), (many, long) = read(400), read(800)
    assert many <= 2.2 * few
    assert max(short, long) < 400


def test_reading_names_ends_after_a_bound() -> None:
    """A text whose names take too many look-ups is refused, and so is a path of more parts than any has."""
    value = " or ".join(["(" + " or ".join(["torch"] * 8) + ")"] * 8)
    long = "import torch\n" + "".join(f"a{at} = " for at in range(MAX_STEPS // 100)) + value + "\n"
    assert outcome(long) is Outcome.SYNTAX_ERROR
    assert outcome("import torch\nx" + " = torch" + ".nn" * 40) is Outcome.SYNTAX_ERROR
    assert outcome(_alias_chain(2000)) is Outcome.SYNTAX_ERROR


def test_finally_blocks_that_double_are_not_compiled() -> None:
    """CPython would compile each copy of nested `finally` blocks; a text with too many is refused before."""
    nested = "def f():\n" + "".join(f"{' ' * at}try: a\n{' ' * at}finally:\n" for at in range(1, 25)) + " " * 25 + "a\n"
    exits = "def f():\n try:\n" + "  return\n" * 5000 + " finally:\n" + "  a\n" * 5000
    assert outcome(nested) is outcome(exits) is Outcome.SYNTAX_ERROR
    plain = ast.parse("def f():\n try:\n  return 1\n finally:\n  a\n")
    assert count_compiled(plain) < 2 * sum(1 for _ in ast.walk(plain)) + 10
