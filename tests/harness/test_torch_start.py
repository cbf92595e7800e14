"""PyTorch without its compiler: what seldom needs it does not import it, and what asks for it has the real one."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os
import sys
import torch
from tritonrl.harness.torch_start import import_torch
import_torch()
lazy = torch._dynamo
from torch._subclasses.fake_tensor import FakeTensorMode

def infer():
    with FakeTensorMode():
        return tuple(torch.nn.Conv2d(3, 4, 3)(torch.rand(2, 3, 8, 8)).shape)

assert infer() == (2, 4, 6, 6)
assert torch.empty_like(torch.nn.Linear(3, 2, device="meta").weight).shape == (2, 3)
assert "torch._dynamo.eval_frame" not in sys.modules
left_alone = list(vars(lazy)["left_alone"])
assert left_alone
for use in sys.argv[1:]:
    if os.fork() == 0:
        break
    assert os.wait()[1] == 0, use
else:
    sys.exit()
exec(use)
assert type(lazy).__name__ == "module"
assert sys.modules["torch._dynamo"] is torch._dynamo is lazy
assert lazy.eval_frame is sys.modules["torch._dynamo.eval_frame"]
assert not [each for each in left_alone if hasattr(each, "__dynamo_disable")]
assert infer() == (2, 4, 6, 6)
assert [each for each in left_alone if hasattr(each, "__dynamo_disable")]
assert torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2)).tolist() == [2.0, 2.0]
assert not hasattr(lazy, "no_such_thing")
"""
USES = (
    "lazy.is_compiling",
    "import torch._dynamo.eval_frame",
    "from torch._dynamo import optimize",
    "@torch._dynamo.disable\ndef ignored(): pass",
)


def test_whatever_asks_for_dynamo_has_it() -> None:
    """Until then it stays away, though tensors without values ask it to leave functions alone; then it does."""
    found = subprocess.run([sys.executable, "-c", PROGRAM, *USES], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


SYMBOLS = """
import os
import sys
from tritonrl.harness.torch_start import import_torch
import_torch()  # as modules do that others import too
import_torch(is_own=True)
import torch
import torch.fx.experimental.symbolic_shapes as lazy
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch._subclasses.fake_tensor import FakeTensorMode
from tritonrl.harness.torch_start import _WITHOUT_SYMBOLS
with FakeTensorMode():
    drawn = torch.softmax(torch.nn.Linear(3, 4)(torch.randn(2, 3)), dim=-1)
    assert (torch.empty_like(drawn).expand(5, 2, 4) + drawn.sum()).clone().shape == (5, 2, 4)
    assert torch.add(torch.empty(3, 4).t().half(), torch.empty(4, 3)).dtype is torch.float32
    assert torch.nn.BatchNorm1d(4)(torch.tensor([[1.0] * 4, [2.0] * 4]).requires_grad_()[:]).shape == (2, 4)
assert "sympy.core" not in sys.modules
assert "torch._dynamo.eval_frame" not in sys.modules
assert "torch.distributed.tensor._api" not in sys.modules
with open(lazy.__file__) as file:
    text = file.read()
OWN = [name for name in _WITHOUT_SYMBOLS if f"\\ndef {name}(" in text]
CALLS = [
    *((name, (known,)) for name in OWN if name not in ("sym_eq", "size_hint") for known in (False, True)),
    *((name, (2,)) for name in OWN if name == "size_hint"),
    *(("sym_eq", each) for each in ((2, 2), (2, 3), ((2, 3), [2, 3]), ((2, 3), [2]), (torch.Size([2]), (2,)))),
    *((name, each) for name in ("sym_and", "sym_or") for each in ((True, False), (True, True), (False, False))),
    *((name, (drawn,)) for name in ("_iterate_exprs", "has_free_symbols", "has_free_unbacked_symbols")),
]

def call_each():
    found = (getattr(lazy, name)(*given) for name, given in CALLS)
    return [each if type(each) in (bool, int) else list(each) for each in found]

found = call_each()
assert "sympy.core" not in sys.modules
for use in sys.argv[1:]:
    if os.fork() == 0:
        break
    assert os.wait()[1] == 0, use
else:
    sys.exit()
exec(use)
assert "sympy.core" in sys.modules
assert found == call_each()
assert type(lazy).__name__ == "module"
assert sys.modules[lazy.__name__] is lazy is sys.modules["torch.fx.experimental"].symbolic_shapes
assert lazy.free_unbacked_symbols.__module__ == lazy.__name__
assert lazy.ShapeEnv().freeze() is None
assert not hasattr(lazy, "no_such_thing")
"""
SYMBOLS_USES = (
    "assert not free_unbacked_symbols([1])",
    "from torch.fx.experimental.symbolic_shapes import ShapeEnv",
    "import torch; torch.compile(lambda x: x + 1, backend='eager', dynamic=True)(torch.ones(2)); "
    "assert issubclass(torch._dynamo.source.ConstantSource, torch._guards.Source)",
    "import threading as t; T = [t.Thread(target=lambda: lazy.guard_bool(True)) for _ in range(4)]; "
    "[one.start() for one in T]; [one.join() for one in T]; assert lazy.guard_bool(True)",
)


def test_whatever_asks_for_symbolic_shapes_has_them() -> None:
    """Until then sympy stays away; a function that was imported before is the real one's."""
    found = subprocess.run([sys.executable, "-c", SYMBOLS, *SYMBOLS_USES], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
