"""The table of docs/host-code.md: what is allowed is recorded, and what is not ends with the outcome that it names."""

from __future__ import annotations

import pytest
from tritonrl.core.outcome import Outcome
from tritonrl.core.plan import Launch
from tritonrl.harness.sandbox.sandbox import Sandbox
from tritonrl.stages.syntax import inspect_source

from ..conftest import only, request
from ..kernels import POINTWISE

LAUNCH = "double_kernel[(triton.cdiv(n, 128),)](x, y, n, 2.0, BLOCK=128, num_warps=2)"
WARM = "made = double_kernel.warmup(x, y, n, 2.0, BLOCK=128, num_warps=2, grid=(1,))\n"
LOGGER = "import logging\nimport itertools\nimport warnings\nlog = logging.getLogger(__name__)\n"
GRIDS = {
    "a grid of four": LAUNCH.replace(",)]", ", 1, 1, 1)]"),
    "a logger": f"log.setLevel(logging.DEBUG)\nlog.addHandler(logging.StreamHandler())\nlog.info('%d', n)\n{LAUNCH}",
    "a logger that keeps nothing": (
        f"log.calls = 1\nassert not hasattr(log, 'calls') and log.isEnabledFor(30) and not log.handlers\n{LAUNCH}"
    ),
    "names of a tuple": f"k = [getattr(torch, s, None) for s in ('half', 'float7')]\nassert k[1] is None\n{LAUNCH}",
    "a device guard": f"with torch.cuda.device(x.device), torch.cuda.device_of(x):\n    {LAUNCH}",
    "an address's alignment": f"assert x.data_ptr() % 16 == 0\n{LAUNCH}",
    "registers": WARM + f"made._init_handles()\nassert 0 < made.n_regs < 256 and not made.metadata.shared\n{LAUNCH}",
    "a launch of a compiled one": WARM + "made[(triton.cdiv(n, 128), 1, 1)](x, y, n, 2.0, 128)",
}
REFUSED = {
    "values": ("x.sum().item()", Outcome.DATA_DEPENDENT),
    "memory in use": ("torch.cuda.memory_allocated()", Outcome.UNSUPPORTED),
    "threads": ("torch.get_num_threads()", Outcome.UNSUPPORTED),
    "code": (WARM + "made.asm", Outcome.UNSUPPORTED),
    "a cycle": ("next(TURNS)", Outcome.NOT_REPRODUCIBLE),
    "a mapped count": ("next(CALLS)", Outcome.NOT_REPRODUCIBLE),
    "a generator's seed": ("SEEDS.manual_seed(SEEDS.initial_seed() + 1)", Outcome.NOT_REPRODUCIBLE),
    "the default seed": ("torch.manual_seed(torch.initial_seed() + 1)", Outcome.NOT_REPRODUCIBLE),
    "warnings": ("warnings.simplefilter('ignore', append=True)\nwarnings.filters.append(1)", Outcome.NOT_REPRODUCIBLE),
    "an attribute of another's object": ("GUARD.calls = getattr(GUARD, 'calls', 0) + 1", Outcome.NOT_REPRODUCIBLE),
}
STATE = (
    "TURNS = itertools.cycle(range(41))\nCALLS = map(abs, itertools.count())\n"
    "SEEDS = torch.Generator()\nGUARD = torch.no_grad()\n"
)


def model(lines: str) -> str:
    """The pointwise model, with these lines where it launches."""
    body = "\n".join(f"        {line}" for line in lines.splitlines())
    source = POINTWISE.replace("\nclass ModelNew", f"\n{LOGGER}{STATE}\n\nclass ModelNew")
    assert f"        {LAUNCH}" in source
    return source.replace(f"        {LAUNCH}", body)


@pytest.mark.parametrize("name", GRIDS)
def test_host_code_that_is_allowed_is_recorded(sandbox: Sandbox, name: str) -> None:
    """The launch is the same as without it."""
    source = model(GRIDS[name])
    assert inspect_source(source) is None
    recording = only(sandbox.record(source, [request((1000,))]))
    assert recording.failure is None, recording.failure
    assert recording.plan is not None
    (launch,) = (step for step in recording.plan.steps if isinstance(step, Launch))
    assert launch.grid == (8, 1, 1)


@pytest.mark.parametrize("name", REFUSED)
def test_host_code_that_is_not_allowed_has_its_outcome(sandbox: Sandbox, name: str) -> None:
    """It is recorded with nothing that would be another thing on a GPU, or at a later call."""
    lines, outcome = REFUSED[name]
    failure = only(sandbox.record(model(f"{lines}\n{LAUNCH}"), [request((1000,))])).failure
    assert failure is not None
    assert failure.outcome is outcome, failure


def test_a_table_of_addresses_is_refused_by_name(sandbox: Sandbox) -> None:
    """The message says that addresses differ between calls."""
    table = "table = torch.tensor([torch.empty_like(x).data_ptr()], device=x.device)\n"
    source = model(table + LAUNCH.replace("(x, y, n, 2.0,", "(table, y, 1, 2.0,"))
    failure = only(sandbox.record(source, [request((1000,))])).failure
    assert failure is not None
    assert failure.outcome is Outcome.NOT_REPRODUCIBLE
    assert "data_ptr" in failure.message
