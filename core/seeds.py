"""Every random stream derives from one root seed, by label.

Labels, not a shared generator's state, separate the streams: adding a draw in one place moves no other, and a run
that resumes gives the numbers that it would have given. Cells of a grid leave their own name out of the labels, so
that they share task draws, sampling noise and timing noise, and differ by the extensions alone.
"""

from __future__ import annotations

import hashlib

_MASK = 2**63 - 1  # torch and numpy both take a signed 64-bit seed that is not negative


def derive(root: int, *labels: str | int) -> int:
    """Return the 63-bit seed of the stream that `labels` name under `root`; 1 and "1" are different labels.

    Raises TypeError for a label that is neither text nor an integer.
    """
    digest = hashlib.sha256()
    for part in (root, *labels):
        if type(part) is not str and type(part) is not int:
            raise TypeError(f"a label is text or an integer, got {part!r}")
        text = f"{type(part).__name__}:{part}".encode("utf-8", "surrogatepass")
        # the length first, so that no two sequences of labels have one encoding
        digest.update(f"{len(text)}:".encode() + text)
    return int.from_bytes(digest.digest()[:8], "big") & _MASK
