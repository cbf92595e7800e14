"""A model behind llama.cpp's own server, examined by `tritonrl eval` through its OpenAI-compatible API, on a CPU.

    python docs/recipes/llama_cpp.py MODEL.gguf

Any server that speaks the protocol is asked alike (vLLM, SGLang, a hosted one):
tritonrl eval --policy openai:MODEL@http://localhost:8000/v1 --suite core13:heldout --limit 20 --out build/api
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import xllamacpp


def main() -> None:
    """Serve the model, examine it, and print what share of its samples is valid, compiled and correct."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/llama"))
    # a model is known by its name and its server's address: an exam goes on at the same port alone
    parser.add_argument("--port", type=int, default=8089)
    arguments = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = str(arguments.model)
    params.hostnames, params.port = ["127.0.0.1"], arguments.port
    params.n_ctx, params.n_parallel = 8192, 1
    params.cpuparams.n_threads = 1  # threads that wait for one another spin: one is fastest where others work too
    server = xllamacpp.Server(params)
    policy = f"openai:{arguments.model.stem}@{server.listening_address}/v1"
    command = [sys.executable, "-m", "tritonrl.cli", "eval", "--policy", policy, "--out", str(arguments.out), "--json"]
    command += ["--suite", "core13:heldout", "--levels", "1", "--limit", "2", "--samples", "2"]
    command += ["--set", "policy.max_new_tokens=100"]
    found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(json.dumps({"samples": len(found["rows"]), "outcomes": [row["outcome"] for row in found["rows"]]}))


if __name__ == "__main__":
    main()
