"""A worker for tests of the pool and the server: it answers at once, without a verifier.

A candidate says what happens: `die` ends the worker each time, `once FILE` only while FILE is not there, `sleep FILE`
waits until FILE is there. Each answer tells the worker's process, and how many items it has answered.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Answer until stdin ends."""
    sys.stdin.readline()
    print(json.dumps({"backend": "stub"}), flush=True)
    for number, line in enumerate(sys.stdin):
        candidate = json.loads(line)["item"]["candidate"]
        word, _, name = candidate.partition(" ")
        if word == "die" or (word == "once" and not Path(name).exists()):
            if word == "once":
                Path(name).touch()
            os._exit(1)
        while word == "sleep" and not Path(name).exists():
            time.sleep(0.01)
        print(json.dumps({"candidate": candidate, "pid": os.getpid(), "number": number}), flush=True)


if __name__ == "__main__":
    main()
