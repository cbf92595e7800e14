"""The README's commands run as written, in order, and what it and the map of the code name exists.

A fenced block's info string says how it is tested: ```sh and ```python run with every test, ```sh slow runs with the
slow ones, and ```sh no-test is only parsed (it downloads, takes long or needs a GPU; the text around it says which).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from itertools import dropwhile, takewhile
from pathlib import Path

import pytest
import typer
from attrs import frozen
from tritonrl import cli
from tritonrl.core.config import ConfigError, with_overrides
from tritonrl.harness.settings import load_config

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCUMENTS = [README, ROOT / "docs" / "architecture.md", *sorted((ROOT / "docs" / "decisions").glob("*.md"))]
SECONDS = 600
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
CODE_PATH = re.compile(r"`((?:core|stages|harness|tests|docs|results)/[\w./*-]+|cli\.py|Makefile)`")


@frozen(kw_only=True)
class Block:
    """One fenced block: its language, whether and when it is run, and its text."""

    language: str
    mark: str
    text: str


def blocks(text: str) -> list[Block]:
    """Return the blocks of a document that are shell or Python, in order."""
    found = []
    for info, body in FENCE.findall(text):
        language, _, mark = info.partition(" ")
        if language in ("sh", "python"):
            assert mark in ("", "slow", "no-test"), f"```{info}: no such mark"
            found.append(Block(language=language, mark=mark, text=body))
    return found


def commands(block: Block) -> list[list[str]]:
    """Return the arguments of each tritonrl command in a shell block, without settings, redirections and comments."""
    lines = [shlex.split(line, comments=True) for line in block.text.replace("\\\n", " ").splitlines()]
    found = []
    for line in lines:
        words = list(dropwhile(lambda word: "=" in word, line))  # TRITONRL_TOKEN=... before the command
        if words[:1] == ["tritonrl"]:
            found.append(list(takewhile(lambda word: word not in (">", "&"), words[1:])))
    return found


BLOCKS = blocks(README.read_text())
COMMANDS = [command for block in BLOCKS if block.language == "sh" for command in commands(block)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the repository's root, so that what blocks write stays out of the repository."""
    made = tmp_path_factory.mktemp("readme")
    for entry in ROOT.iterdir():
        if not entry.name.startswith(".") and entry.name != "build":
            (made / entry.name).symlink_to(entry)
    return made


def run(block: Block, folder: Path) -> None:
    """Run a block with this interpreter's commands first in PATH; fail with its output where it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    program = ["bash", "-euo", "pipefail", "-c"] if block.language == "sh" else [sys.executable, "-c"]
    done = subprocess.run(
        [*program, block.text],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{block.text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_blocks_run_in_order(folder: Path) -> None:
    """Every unmarked block ends with exit code 0, after those before it."""
    quick = [block for block in BLOCKS if not block.mark]
    assert {block.language for block in quick} == {"sh", "python"}
    for block in quick:
        run(block, folder)
    assert "ModelNew" in (folder / "softmax.py").read_text()


@pytest.mark.slow
def test_slow_blocks_run(folder: Path) -> None:
    """The blocks that train end with exit code 0 and leave what the text says."""
    slow = [block for block in BLOCKS if block.mark == "slow"]
    assert slow
    for block in slow:
        run(block, folder)
    assert (folder / "build" / "rl.html").stat().st_size > 10_000


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_commands_exist(arguments: list[str]) -> None:
    """Every command line parses, with its options and the keys that it sets, also in blocks that are not run."""
    command = typer.main.get_command(cli.app)
    context = typer.Context(command)
    rest = list(arguments)
    while rest and hasattr(command, "commands"):
        assert rest[0] in command.commands, f"tritonrl {' '.join(arguments)}: no command {rest[0]}"
        command = command.commands[rest.pop(0)]
    parsed = command.make_context(command.name, rest, parent=context)
    for setting in parsed.params.get("settings") or []:
        key, _, value = setting.partition("=")
        with_overrides(load_config(parsed.params.get("preset"), None, []), {key: value})


def test_a_wrong_key_would_be_found() -> None:
    """The check of the keys can fail."""
    with pytest.raises(ConfigError):
        with_overrides(load_config("quick", None, []), {"rl.round": "1"})


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    """Every relative link of the README, the map and the decisions names a file or folder."""
    broken = [link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()]
    assert not broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_named_paths_exist(document: Path) -> None:
    """Every path in backticks, from the repository's root, exists; a star stands for any name."""
    paths = CODE_PATH.findall(document.read_text())
    missing = [path for path in paths if not list(ROOT.glob(path.rstrip("/")))]
    assert not missing


def test_make_targets_exist() -> None:
    """Every `make TARGET` of the README is a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", "")
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    on_gpus = re.search(r"^GPU := (.*)$", makefile, re.MULTILINE)
    assert phony
    assert on_gpus
    targets = {*phony[1].split(), *on_gpus[1].split()}
    named = set(re.findall(r"\bmake ([a-z][\w-]*)", README.read_text())) - {"it"}
    assert named
    assert named <= targets
