"""verifiers' own `vf-eval` on two tasks; its model is a server that refuses once, then gives the teacher's solution.

With a real model no file is needed, but `uv`, which fetches the packages of the program that talks to it at first:
vf-eval tritonrl_kernels --env.taskset.suite full:heldout --env.turns 3 --env.player.harness.id null
--env.player.runtime.type subprocess --model MODEL --client.base-url URL --client.api-key-var VARIABLE
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tritonrl import load_tasks
from tritonrl.core.corpus import render
from tritonrl.core.text.prompts import assistant_message, user_message

SUITE, OUT = "core13:heldout", Path("build/verifiers")
TASKS = {user_message(task): task.task_id for task in load_tasks(SUITE, 1)}
HEARD: list[str] = []
"""What the model was told after its first answers."""


class Teacher(BaseHTTPRequestHandler):
    """A model behind an OpenAI-compatible API, which streams."""

    def do_POST(self) -> None:
        """Answer the last message of a conversation."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        said = [message["content"] for message in asked["messages"] if message["role"] == "user"]
        answer = "I cannot do that."
        if len(said) > 1:
            HEARD.append(said[-1])
            answer = assistant_message(render(TASKS[said[0]]).solution)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for delta, end in (({"role": "assistant", "content": answer}, None), ({}, "stop")):
            self._stream([{"index": 0, "delta": delta, "finish_reason": end}], None)
        self._stream([], {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})
        self.wfile.write(b"data: [DONE]\n\n")

    def _stream(self, choices: list[dict[str, Any]], usage: dict[str, int] | None) -> None:
        piece = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "teacher", "choices": choices}
        self.wfile.write(f"data: {json.dumps(piece | {'usage': usage})}\n\n".encode())

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


def play(url: str, turns: int) -> list[dict[str, Any]]:
    """Let `vf-eval` play both tasks with so many turns, and return the players' traces."""
    binaries = Path(sys.executable).parent
    # a name of its own and --clean: the same command again replaces the run, where vf-eval else refuses to
    command = [str(binaries / "vf-eval"), "tritonrl_kernels", "--output-dir", str(OUT), "--push", "False"]
    command += ["--run.name", f"turns-{turns}", "--clean"]
    command += ["--env.taskset.suite", SUITE, "--env.taskset.num", "1", "--env.turns", str(turns)]
    command += ["--env.player.harness.id", "null", "--env.player.runtime.type", "subprocess"]
    command += ["--model", "teacher", "--client.base-url", url, "--client.api-key-var", "TEACHER_KEY"]
    environment = {**os.environ, "TEACHER_KEY": "none", "PATH": f"{binaries}:{os.environ['PATH']}"}
    subprocess.run(command, env=environment, check=True, stdout=sys.stderr)
    episodes = (OUT / f"turns-{turns}" / "traces.jsonl").read_text().splitlines()
    return [trace for episode in episodes for trace in json.loads(episode)["traces"]]


def main() -> None:
    """Play with one turn and with two, then print what the traces say: a list for each."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Teacher)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    played = [play(f"http://127.0.0.1:{server.server_address[1]}/v1", turns) for turns in (1, 2)]
    figures = {
        "answers": [[len(each["calls"]) for each in run] for run in played],
        "rewards": [[each["rewards"]["kernel_reward"]["score"] for each in run] for run in played],
        "correct": [[each["metrics"]["correct"] for each in run] for run in played],
        "reasons": [[each["info"]["reason"] for each in run] for run in played],
    }
    print(json.dumps(figures | {"heard": HEARD}))


if __name__ == "__main__":
    main()
