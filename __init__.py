"""tritonrl: reinforcement learning for Triton kernel generation, and the ablation of its recipe.

The names below are the public interface. Importing the package loads none of them: each is found when it is first
asked for, so that the import costs milliseconds and torch is loaded only by what needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .core.config import Config as Config
    from .core.recipe.extensions import AUDIT as AUDIT
    from .core.recipe.extensions import VerifierSpec as VerifierSpec
    from .core.task import Task as Task
    from .core.text.prompts import chat_prompt as chat_prompt
    from .core.verdict import StageResult as StageResult
    from .core.verdict import Verdict as Verdict
    from .harness.adapters.rewards import compute_score as compute_score
    from .harness.adapters.rewards import compute_scores as compute_scores
    from .harness.adapters.rewards import load_policy as load_policy
    from .harness.adapters.rewards import make_trl_reward as make_trl_reward
    from .harness.adapters.scorer import Scorer as Scorer
    from .harness.adapters.scorer import load_task as load_task
    from .harness.adapters.scorer import load_tasks as load_tasks
    from .harness.adapters.scorer import verify as verify
    from .harness.errors import UsageError as UsageError
    from .harness.settings import load_config as load_config

    __version__: str

_PLACES = {
    "verify": "harness.adapters.scorer",
    "Scorer": "harness.adapters.scorer",
    "Verdict": "core.verdict",
    "StageResult": "core.verdict",
    "load_task": "harness.adapters.scorer",
    "load_tasks": "harness.adapters.scorer",
    "Task": "core.task",
    "chat_prompt": "core.text.prompts",
    "load_policy": "harness.adapters.rewards",
    "make_trl_reward": "harness.adapters.rewards",
    "compute_score": "harness.adapters.rewards",
    "compute_scores": "harness.adapters.rewards",
    "load_config": "harness.settings",
    "Config": "core.config",
    "VerifierSpec": "core.recipe.extensions",
    "AUDIT": "core.recipe.extensions",
    "UsageError": "harness.errors",
}

__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        found: Any = version("tritonrl")
    elif name in _PLACES:
        found = getattr(import_module(f".{_PLACES[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
