"""Plausible mistakes, for pretraining text that is imperfect on purpose.

Code found in the wild is often wrong, and a base model that had only ever seen right kernels would leave nothing for
fine-tuning and reinforcement learning to do. Each mutation is one small mistake that a person or a model makes; it
keeps the text's form, and most leave it parseable.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

Mutation = Callable[[str, random.Random], str]
"""Returns the text changed, or as it was where it has no place for this mistake."""


def _replace_one(pattern: str, change: Callable[[re.Match[str], random.Random], str]) -> Mutation:
    """Replaces one random match of `pattern`."""
    compiled = re.compile(pattern, re.MULTILINE)

    def mutate(text: str, rng: random.Random) -> str:
        matches = list(compiled.finditer(text))
        if not matches:
            return text
        match = rng.choice(matches)
        return text[: match.start()] + change(match, rng) + text[match.end() :]

    return mutate


_END = r"(?!\w)"


def _swap(replacements: dict[str, tuple[str, ...]]) -> Mutation:
    """Replaces one of the words, or signs, by one of its replacements."""
    words = "|".join(f"{re.escape(word)}{'' if word.endswith(' ') else _END}" for word in replacements)
    return _replace_one(words, lambda match, rng: rng.choice(replacements[match[0]]))


def _rewrite(pattern: str, *templates: str) -> Mutation:
    """Rewrites one match of `pattern` by one of the templates."""
    return _replace_one(pattern, lambda match, rng: match.expand(rng.choice(templates)))


_drop_step = _replace_one(r"^( +)(\w+) = [^\n]*\b\2\b[^\n]*\n", lambda match, rng: "")
"""Drops one statement that updates a value in place."""


def _change_value(number: re.Match[str], rng: random.Random) -> str:
    value = float(number[0])
    return repr(round(rng.choice((value * 2, value / 10, value + 1.0, value + 0.5, 1.0 - value)), 8))


_change_number = _replace_one(r"(?<![\w.])\d+\.\d+(?:e-?\d+)?|(?<![\w.])\de-\d+", _change_value)
"""Changes one decimal number: its sign, its scale or its value."""


def _change_arguments(change: Callable[[list[str], random.Random], None]) -> Mutation:
    """Changes the arguments of a kernel's launch in place."""

    def mutate(text: str, rng: random.Random) -> str:
        launch = _LAUNCH.search(text)
        if launch is None:
            return text
        arguments = launch[1].split(", ")
        change(arguments, rng)
        return text[: launch.start(1)] + ", ".join(arguments) + text[launch.end(1) :]

    return mutate


_LAUNCH = re.compile(r"\]\(([^()\n]*(?:\([^()\n]*\)[^()\n]*)*)\)$", re.MULTILINE)


def _swap_neighbours(arguments: list[str], rng: random.Random) -> None:
    num_positional = sum("=" not in argument for argument in arguments)
    if num_positional > 1:
        index = rng.randrange(num_positional - 1)
        arguments[index], arguments[index + 1] = arguments[index + 1], arguments[index]


def _drop_one(arguments: list[str], rng: random.Random) -> None:
    del arguments[rng.randrange(len(arguments))]


def _misname(text: str, rng: random.Random) -> str:
    """Uses a name that nothing defines."""
    body = text.find("def ")
    names = [
        match for match in re.finditer(r"(?<![\w.\"])[a-z]\w*(?:_\w+)?(?=[\s,)\[])", text[body:]) if "_" in match[0]
    ]
    if not names:
        return text
    name = rng.choice(names)
    stem = name[0]
    changed = rng.choice((stem.replace("_", ""), stem.split("_")[0], stem + "s", stem.split("_")[-1]))
    return text[: body + name.start()] + changed + text[body + name.end() :]


_FUNCTIONS = {
    "tl.maximum": ("tl.minimum", "tl.max"),
    "tl.minimum": ("tl.maximum",),
    "tl.max": ("tl.sum", "tl.min", "tl.maximum"),
    "tl.min": ("tl.max",),
    "tl.sum": ("tl.max", "tl.mean"),
    "tl.exp": ("tl.log", "torch.exp"),
    "tl.log": ("tl.exp", "tl.log2"),
    "tl.sqrt": ("tl.rsqrt",),
    "tl.sigmoid": ("tl.tanh", "tl.exp", "torch.sigmoid"),
    "tl.erf": ("tl.tanh",),
    "tl.argmax": ("tl.argmin", "tl.max"),
    "tl.argmin": ("tl.argmax", "tl.min"),
    "tl.zeros": ("tl.ones", "torch.zeros"),
    "torch.empty_like": ("torch.zeros_like",),
}
_SIGNS = {
    " + ": (" - ", " * "),
    " - ": (" + ",),
    " * ": (" + ",),
    " / ": (" * ",),
    " < ": (" <= ", " > "),
    " > ": (" < ",),
    " += ": (" = ",),
}
_MUTATIONS: tuple[tuple[int, Mutation], ...] = (
    # wrong values
    (3, _drop_step),
    (3, _change_number),
    (2, _swap(_FUNCTIONS)),
    (2, _swap(_SIGNS)),
    # masks, offsets and grids
    (2, _rewrite(r", mask=[^,\n]*?(?=\)(?:\.to\(tl\.float32\))?$)", "")),
    (2, _rewrite(r", other=[^)\n]*(?:\(\"inf\"\))?(?=\))", "", ", other=1.0")),
    (1, _rewrite(r'-float\("inf"\)', "0.0", 'float("inf")')),
    (1, _rewrite(r"triton\.cdiv\((\w+(?:\.\w+\(\))?), (\w+)\)", r"\1 // \2", r"triton.cdiv(\1, \2) - 1", r"(\1, \2)")),
    (1, _rewrite(r"tl\.program_id\((?:axis=)?([01])\)", "tl.program_id(1)", "tl.program_id(2)")),
    (1, _rewrite(r"\[:, None\]", "[None, :]", "")),
    (1, _rewrite(r"\[None, :\]", "[:, None]", "")),
    (1, _rewrite(r"axis=([01])", "axis=-2", "axis=1", "axis=0")),
    (1, _rewrite(r", keep_dims=True", "")),
    (1, _rewrite(r"\.stride\(([01])\)", ".stride(-3)", ".stride(0)", ".stride(1)")),
    (1, _rewrite(r"\.shape\[(-1|0|1)\]", ".shape[0]", ".shape[1]", ".shape")),
    (1, _rewrite(r"triton\.next_power_of_2\((\w+)\)", r"\1", "1024")),
    # names, casts and forms
    (2, _change_arguments(_swap_neighbours)),
    (1, _change_arguments(_drop_one)),
    (2, _misname),
    (1, _rewrite(r"\.to\(tl\.float32\)", "", ".to(tl.float16)")),
    (1, _rewrite(r", input_precision=\"ieee\"", "", ", allow_tf32")),
    (1, _rewrite(r"self\.(\w+)\.weight", r"self.\1.weights", "self.weight")),
    (1, _rewrite(r"self\.(\w+)\.bias", r"self.\1.b", "self.bias", r"self.\1.weight")),
    (1, _rewrite(r"^import triton.*\n", "")),
    (1, _rewrite(r": tl\.constexpr", "")),
    (1, _rewrite(r"^@triton\.jit\n", "")),
    (1, _rewrite(r", device=\w+\.device", "")),
    (1, _rewrite(r", dtype=(?:tl|torch|\w+)\.\w+", "", ", dtype=torch.float64")),
    (1, _rewrite(r"^ +return \w+\n(?=\n|\Z)", "")),
    (1, _rewrite(r"^class ModelNew", "class Model")),
)


def corrupt(solution: str, rng: random.Random) -> str:
    """Return the solution with one mistake drawn from `rng`; raises ValueError where no mistake has a place."""
    remaining = list(_MUTATIONS)
    while remaining:
        (choice,) = rng.choices(range(len(remaining)), weights=[weight for weight, _ in remaining])
        _, mutate = remaining.pop(choice)
        changed = mutate(solution, rng)
        if changed != solution:
            return changed
    raise ValueError("the text has no place for a mistake")
