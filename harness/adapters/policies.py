"""A policy for other trainers: the model and its tokenizer, as transformers has them."""

from __future__ import annotations

from typing import Any

from ...core.config import PolicyConfig


def load_policy(name: str = "nano", device: str | None = None) -> tuple[Any, Any]:
    """Load a policy's model and tokenizer: `nano`, which is shipped, or whatever `policy.name` takes.

    In float32 on the CPU and in bfloat16 on a GPU, `device` being a GPU where there is one. Raises UsageError where it
    cannot be loaded.
    """
    from ..policy.model.load import load_policy as load

    policy = load(PolicyConfig(name=name), device)
    return policy.model, policy.tokenizer
