"""Run the hand-written candidates on this machine's GPU beside their references: proof that they are right.

`python tests/genuine/compare_on_gpu.py` needs torch, Triton and a GPU, and nothing of the project.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

import torch

FOLDER = Path(__file__).parent


def load(path: Path) -> types.ModuleType:
    """The file as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def compare(path: Path) -> str:
    """Empty where the candidate agrees with its reference at the declared sizes, else what is wrong."""
    task = load(FOLDER / "tasks" / f"{path.read_text().partition(chr(10))[0].removeprefix('# task: ')}.py")
    candidate = load(path)
    torch.manual_seed(0)
    inputs = [value.cuda() for value in task.get_inputs()]
    torch.manual_seed(1)
    reference = task.Model(*task.get_init_inputs()).cuda()
    torch.manual_seed(1)
    model = candidate.ModelNew(*task.get_init_inputs()).cuda()
    with torch.no_grad():
        wanted = reference.double()(*(value.double() if value.is_floating_point() else value for value in inputs))
        found = model(*inputs)
    pairs = zip(wanted, found, strict=True) if isinstance(wanted, tuple) else [(wanted, found)]
    for want, have in pairs:
        if want.shape != have.shape:
            return f"shape {tuple(have.shape)}, not {tuple(want.shape)}"
        if not have.is_floating_point():
            if not torch.equal(want, have):
                return f"{int((want != have).sum())} elements differ"
            continue
        error = float((have.double() - want.double()).norm() / want.double().norm())
        if not error < (5e-3 if have.dtype == torch.bfloat16 else 1e-3):
            return f"relative error {error:.2e}"
    return ""


def main() -> None:
    """One line for each candidate that is wrong, and the count."""
    torch.backends.cuda.matmul.allow_tf32 = False
    paths = sorted((FOLDER / "candidates").glob("*.py"))
    wrong = 0
    for path in paths:
        try:
            problem = compare(path)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"[:400]
        if problem:
            wrong += 1
            print(f"{path.stem}: {problem}", flush=True)
    print(f"{len(paths) - wrong} of {len(paths)} agree on {torch.cuda.get_device_name()}")


if __name__ == "__main__":
    main()
