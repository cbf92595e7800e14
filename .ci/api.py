"""Write docs/api.md from the docstrings of what `tritonrl` exports: python .ci/api.py > docs/api.md"""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import Any

import attrs
import tritonrl

INTRODUCTION = """# The Python interface

What `from tritonrl import ...` offers; nothing else is promised to stay. `import tritonrl` loads no torch. This page is
written from the docstrings by `python .ci/api.py > docs/api.md`, and a test holds that it is current.
"""


def sign(name: str, value: Any) -> str:
    """Return the call as code, with annotations as they are written."""
    shown = str(inspect.signature(value)).replace(repr(tritonrl.AUDIT), "AUDIT").removesuffix(" -> 'None'")
    return name + re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)


def describe(name: str, value: Any) -> list[str]:
    """Describe one exported name in Markdown."""
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return [f"## `{name}`", "", f"A `{type(value).__name__}`: `{value}`", ""]
    if not inspect.isclass(value):
        return [f"## `{name}`", "", f"`{sign(name, value)}`", "", text(value), ""]
    lines = [f"## `{name}`", "", text(value), ""]
    if issubclass(value, Exception):
        return lines
    if attrs.has(value):
        lines += [f"Fields: {', '.join(f'`{field.name}`' for field in attrs.fields(value))}.", ""]
    else:
        lines += [f"`{sign(name, value)}`", ""]
    for member, found in vars(value).items():
        if member.startswith("_") or not inspect.getdoc(found):
            continue
        if isinstance(found, property):
            lines.append(f"- `.{member}`: {text(found.fget, ' ')}")
        elif inspect.isfunction(found):
            lines.append(f"- `{sign(f'.{member}', found)}`: {text(found, ' ')}")
        elif isinstance(found, classmethod):
            lines.append(f"- `{sign(f'.{member}', found.__get__(None, value))}`: {text(found, ' ')}")
    return [*lines, ""]


def text(found: Any, between: str = "\n\n") -> str:
    """Return a docstring as paragraphs, with `between` between them."""
    doc = inspect.getdoc(found) or ""
    return between.join(" ".join(textwrap.dedent(part).split()) for part in doc.split("\n\n"))


def write_page() -> str:
    """Write the page."""
    names = [name for name in tritonrl.__all__ if name != "__version__"]
    lines = [line for name in names for line in describe(name, getattr(tritonrl, name))]
    return "\n".join([INTRODUCTION, *lines]).rstrip().replace("\n\n\n", "\n\n") + "\n"


if __name__ == "__main__":
    print(write_page(), end="")
