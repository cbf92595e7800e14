"""Where the machine has too little memory, and not a job too much: the kernel then ends a process of its own choice.

A job's death by that says nothing of its candidate. So jobs offer themselves before everything else on the machine, and
whoever had one ended so runs it again (`Sandbox`).
"""

from __future__ import annotations

import contextlib


def count_kills() -> int:
    """How many processes this machine's kernel has ended for want of memory; 0 where it does not say."""
    with contextlib.suppress(OSError), open("/proc/vmstat") as file:
        for line in file:
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                return int(number)
    return 0


def offer_first() -> None:
    """Let the kernel end this process, and what it starts, before others: not the judge, nor a zygote."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
