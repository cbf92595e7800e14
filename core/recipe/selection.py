"""Best-of-N selection: which candidates of a task the policy is fine-tuned on.

A reward of 0 is never selected, even where that leaves fewer than K: fine-tuning on a failure teaches the failure.
Ties go to the lowest index, that is to the earlier sample, which says nothing about quality and favours none. The
same source counts once (its best-rewarded, then earliest sample): selected twice, it would get twice the weight.
"""

from __future__ import annotations

from collections.abc import Sequence


def select(rewards: Sequence[float], keep: int, sources: Sequence[str] | None = None) -> tuple[int, ...]:
    """Return the indices of the best `keep` rewards, best first; `sources` are texts or hashes that tell duplicates.

    Raises ValueError for a negative `keep`, and where there are not as many sources as rewards.
    """
    if keep < 0:
        raise ValueError(f"keep: must be >= 0, got {keep}")
    if sources is not None and len(sources) != len(rewards):
        raise ValueError(f"{len(rewards)} rewards, but {len(sources)} sources")
    chosen: list[int] = []
    seen: set[str] = set()
    for index in sorted((i for i, reward in enumerate(rewards) if reward > 0.0), key=lambda i: (-rewards[i], i)):
        if len(chosen) == keep:
            break
        if sources is not None:
            if sources[index] in seen:
                continue
            seen.add(sources[index])
        chosen.append(index)
    return tuple(chosen)
