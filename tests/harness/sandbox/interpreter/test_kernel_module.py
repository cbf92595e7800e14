"""Under the interpreter only kernels and constants of a source exist; what is more than that never runs."""

from __future__ import annotations

import numpy as np
import pytest
from tritonrl.core.candidate import Failure
from tritonrl.core.outcome import Outcome
from tritonrl.core.run import RunRequest
from tritonrl.core.serialisation import from_plain
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.harness.sandbox.warm_up import CANDIDATE, make_plan

from ..conftest import only, request
from ..kernels import HEADER
from ..recording.test_recording import run

MODEL = """

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        k[(1,)](x, y, x.numel(), B=64)
        return y
"""

KERNEL = """
@triton.jit
def k(x_ptr, y_ptr, n, B: tl.constexpr):
    at = tl.arange(0, B)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(y_ptr + at, EXPRESSION, mask=at < n)
"""

DOUBLING = {
    "plain": HEADER + KERNEL.replace("EXPRESSION", "x * 2.0"),
    "everything imported by name": (
        "import torch\nimport torch.nn as nn\nfrom triton import jit\n"
        "from triton.language import arange, constexpr as C, load, store\n"
        "@jit\ndef k(x_ptr, y_ptr, n, B: C):\n    at = arange(0, B)\n"
        "    store(y_ptr + at, load(x_ptr + at, mask=at < n) * 2.0, mask=at < n)\n"
    ),
    "everything imported twice": (
        HEADER
        + "import triton.language as tl\nfrom math import pi\nfrom math import pi\nPI = tl.constexpr(pi)\n"
        + "import math\nimport math\nONE = tl.constexpr(math.cos(0.0))\n"
        + KERNEL.replace("EXPRESSION", "x * 2.0 * ONE + (PI - PI)")
    ),
    "star import": (
        "import torch\nimport torch.nn as nn\nfrom triton import jit\nfrom triton.language import *\n"
        "@jit\ndef k(x_ptr, y_ptr, n, B: constexpr):\n    at = arange(0, B)\n"
        "    store(y_ptr + at, load(x_ptr + at, mask=at < n) * 2.0, mask=at < n)\n"
    ),
    "constants": (
        HEADER
        + "import math\nONE = tl.constexpr(math.log2(2.0))\nTWO: tl.constexpr = tl.constexpr(triton.cdiv(3, 2))\n"
        "ZERO, HALF = tl.constexpr(-0.0), tl.constexpr(torch.finfo(torch.float32).max * 0 + 0.5)\n"
        + KERNEL.replace("EXPRESSION", "x * TWO * HALF + x * ONE + ZERO")
    ),
    "a raise that no constant reaches": (
        HEADER
        + KERNEL.replace(
            "    x = tl",
            "    if B > 64:\n        raise ValueError(f'{B} is too large for {torch.cuda}')\n    x = tl",
        ).replace("EXPRESSION", "x * 2.0")
    ),
    "functions of a module below": HEADER + KERNEL.replace("EXPRESSION", "tl.core.where(at < n, x, 0.0) * 2.0"),
    "fallback import": (
        HEADER + "try:\n    from triton.language.extra import libdevice\nexcept ImportError:\n    libdevice = tl.math\n"
        "if hasattr(tl, 'exp2'):\n    power = tl.exp2\nelse:\n    power = tl.math.exp2\n"
        + KERNEL.replace("EXPRESSION", "x + (libdevice.tanh(x) if B > 64 else x)")
    ),
    "alias of a function": HEADER + "root = tl.sqrt\n" + KERNEL.replace("EXPRESSION", "x * root(x * 0.0 + 4.0)"),
    "jit as a call": HEADER
    + KERNEL.replace("@triton.jit\ndef k(", "def raw(").replace("EXPRESSION", "x * 2.0")
    + "k = triton.autotune(configs=[triton.Config({})], key=['n'])(triton.jit(raw))\n",
    "made by a function": HEADER
    + "def make():"
    + KERNEL.replace("EXPRESSION", "x * 2.0").replace("\n", "\n    ")
    + "\n    return k\nk = make()\n",
    "combining function": HEADER
    + "@triton.jit\ndef combine(a, b):\n    return a + b\n"
    + KERNEL.replace("EXPRESSION", "x * 2.0 + 0.0 * tl.reduce(tl.where(at < n, x, 0.0), 0, combine)"),
    "constexpr function": HEADER
    + "@triton.constexpr_function\ndef twice(a):\n    return a * 2\n"
    + KERNEL.replace("EXPRESSION", "x * twice(1)"),
    "own decorator": HEADER
    + "def traced(kernel):\n    return kernel\n"
    + KERNEL.replace("@triton.jit", "@traced\n@triton.jit").replace("EXPRESSION", "x * 2.0"),
    "future annotations": "from __future__ import annotations\n" + HEADER + KERNEL.replace("EXPRESSION", "x * 2.0"),
    "the last text that begins with def is in a string": HEADER
    + KERNEL.replace(
        "    at =",
        '    """\n    def k(x_ptr, y_ptr, n, B: tl.constexpr):\n        tl.store(y_ptr, 7.0)\n        """ """ """\n'
        "    at =",
    ).replace("EXPRESSION", "x * 2.0"),
}

REACHES = {
    "class": "x.__class__.__base__",
    "NumPy array of a tensor": "x.handle.data.cumsum()",
    "module inside the language": "tl.core.inspect.currentframe()",
    "built-ins inside the language": "tl.core.builtins.print(x)",
    "language as a value": "(tl, x)[0].core",
    "library inside Triton": "triton.runtime.driver",
    "PyTorch": "torch.softmax(x, 0)",
    "interpreter's own names": "interpreter_builder.set_grid_idx",
    "built-in": "getattr(x, 'handle')",
    "type of a constant": "x if isinstance(B, tl.constexpr) else x + 1",
    "function object": "(lambda a: a)(x)",
    "private argument": "tl.exp(x, _semantic=x)",
    "dictionary of arguments": "tl.exp(x, **{'a': x})",
    "generator's frame": "(i for i in (1, 2)).gi_frame",
    "what rewritten functions use": "tl.standard.interpreter_semantic.where(x > 0, x, x)",
    "own module": "candidate_list.append(x)",
    "helper in plain Python": "helper(x)",
    "class of the candidate": "Secret.value",
}


def _result(sandbox: Sandbox, source: str, x: np.ndarray) -> np.ndarray | Failure:
    reply = sandbox.record(source, [request(x.shape)])
    plan = only(reply).plan
    assert plan is not None, only(reply).failure
    result = run(sandbox, source, plan, {"0": x.tobytes()}, reply.blobs)
    return result.failure or np.frombuffer(result.outputs[0], np.float32).reshape(x.shape)


@pytest.mark.parametrize("style", DOUBLING)
def test_genuine_kernel_needs_no_host_code(sandbox: Sandbox, style: str) -> None:
    """However a kernel comes by its names, it runs without its module."""
    x = np.random.default_rng(0).random(40, dtype=np.float32)
    result = _result(sandbox, DOUBLING[style] + MODEL, x)
    assert not isinstance(result, Failure), result
    assert np.allclose(result, 2 * x, rtol=1e-6)


def test_warm_up_runs_to_its_end(sandbox: Sandbox) -> None:
    """What a zygote runs before its first fork fails nowhere, so that children find all of it warm."""
    (result,) = sandbox.run(CANDIDATE, [from_plain(make_plan(CANDIDATE), RunRequest)]).results
    assert result.failure is None


@pytest.mark.parametrize("reach", REACHES)
def test_python_beyond_the_kernel_language_is_refused(sandbox: Sandbox, reach: str) -> None:
    """A branch that compiles to nothing and would run under the interpreter is refused before it runs."""
    around = "candidate_list = []\ndef helper(x):\n    import os\n    return x\nclass Secret:\n    value = 1\n"
    source = HEADER + around + KERNEL.replace("EXPRESSION", f"({REACHES[reach]}) if n < 100 else x") + MODEL
    result = _result(sandbox, source, np.ones(8, np.float32))
    assert isinstance(result, Failure)
    assert result.outcome is Outcome.UNSUPPORTED or "NameError" in result.message, result


STATEMENTS = {
    "import": "import numpy as tl2",
    "try": "try:\n        tl.store(y_ptr, 1.0)\n    except Exception as error:\n        y_ptr = error",
    "with": "with x as y:\n        pass",
    "function": "def inner():\n        pass",
    "class": "class A:\n        pass",
    "global": "global other",
    "delete": "del at",
    "pattern": "match x:\n        case tl.tensor(handle=h):\n            pass",
    "attribute assigned": "tl.load = tl.store",
    "attribute of a loop": "for tl.load in (1,):\n        pass",
    "rebound module": "[tl.core for tl in (x,)]",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_beyond_the_kernel_language_are_refused(sandbox: Sandbox, statement: str) -> None:
    """Statements that Triton has no meaning for do not run in a kernel."""
    body = KERNEL.replace("EXPRESSION", "x * 2.0") + f"    {STATEMENTS[statement]}\n"
    result = _result(sandbox, HEADER + body + MODEL, np.ones(8, np.float32))
    assert isinstance(result, Failure)
    assert result.outcome is Outcome.UNSUPPORTED
    assert "is not part of the kernel language" in result.message


FORGERY = """
import gc
import triton.runtime.interpreter as machine
import numpy

def forge(executor, *arguments, **named):
    import torch
    named["y_ptr"].copy_(named["x_ptr"] * 2.0)

machine.GridExecutor.__call__ = forge
machine.InterpretedFunction.run = lambda self, *a, grid, warmup, **named: forge(self, *a, **named)

class Patched(type):
    machine.GridExecutor.__call__ = forge
"""


def test_host_code_cannot_forge_numbers(sandbox: Sandbox) -> None:
    """Module-level code that would replace the interpreter by PyTorch does not run where the numbers arise."""
    decorated = KERNEL.replace("@triton.jit", "@(lambda f: exec(FORGE) or f)\n@triton.jit").replace("EXPRESSION", "x")
    source = HEADER + f"FORGE = {FORGERY!r}\n" + FORGERY + decorated + MODEL
    x = np.arange(1, 9, dtype=np.float32)
    result = _result(sandbox, source, x)
    assert not isinstance(result, Failure), result
    assert np.array_equal(result, x)


def test_tensor_is_no_constant(sandbox: Sandbox) -> None:
    """A launch that hands a kernel a whole tensor as constexpr is refused: the body would hold a PyTorch tensor."""
    source = HEADER + KERNEL.replace("y_ptr, n", "y_ptr, z: tl.constexpr, n").replace("EXPRESSION", "x * 2.0")
    source += MODEL.replace("k[(1,)](x, y,", "k[(1,)](x, y, x,")
    result = _result(sandbox, source, np.ones(8, np.float32))
    assert isinstance(result, Failure)
    assert result.outcome is Outcome.UNSUPPORTED
    assert result.message == "argument z of k is a tensor as constexpr"


BOUND_TWICE = {
    "by a condition": "if torch.cuda.is_available():\n    F = tl.constexpr(2.0)\nelse:\n    F = tl.constexpr(3.0)\n",
    "after an exception": "try:\n    F = tl.constexpr(2.0)\n    F.a.b\nexcept Exception:\n    F = tl.constexpr(3.0)\n",
    "by a function": "F = tl.constexpr(2.0)\ndef change():\n    global F\n    F = tl.constexpr(3.0)\nchange()\n",
    "by a default argument": "F = tl.constexpr(2.0)\ndef change(a=(F := tl.constexpr(3.0))):\n    pass\n",
    "by a loop": "F = tl.constexpr(2.0)\nfor F in (tl.constexpr(3.0),):\n    pass\n",
    "by a pattern": "F = tl.constexpr(2.0)\nmatch tl.constexpr(3.0):\n    case F:\n        pass\n",
    "by what differs here": "F = tl.constexpr(2.0 if triton.knobs.runtime.interpret else 3.0)\n",
    "by the machine": "F = tl.constexpr(2.0 if torch.cuda.is_available() else 3.0)\n",
    "by a class": "class F:\n    pass\nF = F and tl.constexpr(2.0)\n",
    "by another value": "F = tl.constexpr(2.0)\ndef use(f=F):\n    pass\nF = tl.constexpr(3.0)\n",
    "by adding to it": "F = 2.0\nF += 1.0\nF = tl.constexpr(F)\n",
    "by a function in a loop": "F = tl.constexpr(2.0)\nfor _ in (1,):\n    def F():\n        pass\n",
    "by a star": "pi = tl.constexpr(2.0)\nfrom math import *\nF = pi\n",
}


@pytest.mark.parametrize("way", BOUND_TWICE)
def test_constant_that_takes_host_code_to_know_is_refused(sandbox: Sandbox, way: str) -> None:
    """What a name stands for is read from the text in order, or not guessed."""
    result = _result(
        sandbox, HEADER + BOUND_TWICE[way] + KERNEL.replace("EXPRESSION", "x * F") + MODEL, np.ones(8, np.float32)
    )
    assert isinstance(result, Failure)
    assert result.outcome is Outcome.UNSUPPORTED
