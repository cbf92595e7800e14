"""Tasks in dialects: their ids, their splits, their texts."""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from itertools import islice

import pytest
from tritonrl.core.corpus import SUITES, Split, examples, is_corpus_id, render, split_of
from tritonrl.core.corpus.surfaces.dialects import DIALECTS, dialects
from tritonrl.core.corpus.surfaces.layout import _wrapped
from tritonrl.core.task import Example, Profile
from tritonrl.core.text.named_sizes import read_sizes, with_constants
from tritonrl.core.text.prompts import user_message

SIZES_OF = (Profile.TINY, Profile.SMALL, Profile.LARGER)


def drawn(suite: str, count: int, split: Split = Split.TRAIN, seed: int = 1) -> list[Example]:
    """Returns `count` examples a level."""
    return [e for level, names in SUITES[suite].items() for e in islice(examples(split, level, seed, names), count)]


@pytest.fixture(scope="module")
def field() -> list[Example]:
    """Examples in the dialects of training."""
    return drawn("field", 150)


@pytest.fixture(scope="module")
def unheard() -> list[Example]:
    """Examples in dialects that are held out."""
    return drawn("dialects", 80, Split.HELDOUT)


@pytest.mark.parametrize("call", ["f", "x * self.f", "2.0 * ", "-"])
@pytest.mark.parametrize("terms", [1, 3, 9])
def test_a_long_line_in_several_is_the_same_statement(call: str, terms: int) -> None:
    """A comma at the end of a call's last line changes nothing, and one after a factor would make a tuple of it."""
    line = f"value = {call}({' + '.join(['some_input * some_input'] * terms)})"
    broken = "\n".join(_wrapped([line]))
    assert ("\n" in broken) is (len(line) > 96)
    assert ast.dump(ast.parse(broken)) == ast.dump(ast.parse(line))


def dialect_of(example: Example) -> str:
    return example.style.rpartition("/")[2]


def test_two_dialects_are_never_trained_on(field: list[Example], unheard: list[Example]) -> None:
    """Training tasks are written in every other dialect and in no held-out one; `dialects` has these two alone."""
    assert len(DIALECTS) >= 10
    assert {dialect_of(example) for example in field} == {dialect.name for dialect in dialects()}
    assert {dialect_of(example) for example in unheard} == {dialect.name for dialect in dialects(is_heldout=True)}
    assert len(dialects(is_heldout=True)) == 2


def test_an_id_says_what_is_drawn_and_how_it_is_written(field: list[Example], unheard: list[Example]) -> None:
    """An id renders the same text again, in the split that the canonical task is in."""
    for example in [*field[::37], *unheard[::23]]:
        assert is_corpus_id(example.task.task_id)
        assert render(example.task.task_id) == example
        canonical = re.sub("field_|dialects_", "", example.task.task_id)
        assert split_of(example.task) is split_of(render(canonical).task)


def test_heldout_dialects_write_the_heldout_tasks_of_the_field() -> None:
    """Both suites ask for the same computations, so that a difference between them is one of dialects."""
    field = [example.task.task_id.replace("field_", "") for example in drawn("field", 100, Split.HELDOUT, 5)]
    assert [e.task.task_id.replace("dialects_", "") for e in drawn("dialects", 100, Split.HELDOUT, 5)] == field


def test_at_most_half_of_the_prompts_say_the_task_in_english(field: list[Example]) -> None:
    """The others begin with the program; no two prompts are alike."""
    assert 0.2 < sum(bool(example.task.description) for example in field) / len(field) <= 0.5
    prompts = [user_message(example.task) for example in field]
    assert len(set(prompts)) == len(prompts)
    assert all("\n\n```python" not in prompt for prompt in prompts)


def test_a_solution_never_says_the_name_of_the_reference(field: list[Example], unheard: list[Example]) -> None:
    """`ModelNew` calls `super().__init__()`, and its module defines whatever it names."""
    for example in [*field, *unheard]:
        tree = ast.parse(example.solution)
        read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        bound |= {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        bound |= {alias.asname or alias.name for node in tree.body for alias in _imported(node)}
        assert read <= bound | set(dir(builtins)), example.task.task_id
        assert "Model" not in read
        assert ("def __init__" in example.solution) == ("super().__init__()" in example.solution)


def _imported(node: ast.stmt) -> list[ast.alias]:
    return node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else []


def test_what_a_constructor_names_is_copied_with_it(field: list[Example], unheard: list[Example]) -> None:
    """Constants that the class names, and roots of sizes, occur; the solution has the constant and imports `math`."""
    examples = [*field, *unheard]
    constants = [
        (made.group(), example)
        for example in examples
        for made in re.finditer(r"^([A-Z_]+) = -?\d*\.\d+.*$", example.task.source, re.MULTILINE)
        if made[1] in re.split(r"\n(?=\S)", example.task.source.partition("class Model")[2])[0]
    ]
    assert len(constants) > len(examples) / 50
    assert all(line in example.solution.splitlines() for line, example in constants)
    rooted = [example for example in examples if "math.sqrt(" in example.task.source.partition("def forward")[0]]
    assert len(rooted) > len(examples) / 50
    assert all("import math" in example.solution.splitlines() for example in rooted)


def test_constructors_take_the_same_arguments(field: list[Example], unheard: list[Example]) -> None:
    """`Model` and `ModelNew` take the same arguments with the same defaults, where the model has any."""
    for example in [*field, *unheard]:
        own, new = (
            _constructor(text, name) for text, name in ((example.task.source, "Model"), (example.solution, "ModelNew"))
        )
        assert own == new or (new is None and own == ("self",)), example.task.task_id


def test_a_solution_is_written_from_the_top_down(field: list[Example], unheard: list[Example]) -> None:
    """The class comes first, its constructor line by line the program's, and each function before its kernel."""
    for example in [*field, *unheard]:
        definitions = [n for n in ast.parse(example.solution).body if isinstance(n, (ast.ClassDef, ast.FunctionDef))]
        # what builds layers stands before the class, as in the program
        definitions = [
            n for n in definitions if not isinstance(n, ast.FunctionDef) or f"def {n.name}(" not in example.task.source
        ]
        assert isinstance(definitions[0], ast.ClassDef), example.task.task_id
        names = [node.name for node in definitions]
        for place, node in enumerate(definitions):
            if f"{node.name}_kernel" in names:
                assert names[place + 1] == f"{node.name}_kernel", example.task.task_id
        head, _, _ = example.solution.partition("def forward(")
        own, read = (
            {line.strip() for line in text.splitlines()}
            for text in (head.partition("class ModelNew(nn.Module):\n")[2], example.task.source)
        )
        assert own - read <= {"super().__init__()", ""}


def test_answers_have_four_spaces_whatever_the_prompt_has(field: list[Example], unheard: list[Example]) -> None:
    """Prompts are indented as people do, those of training never by two spaces."""
    trained, held_out = (Counter(_indent(example.task.source) for example in given) for given in (field, unheard))
    assert set(trained) == {"    ", "\t", "   ", "        "}
    assert trained["    "] > 0.85 * len(field)
    assert set(held_out) == {"    ", "  "}
    assert {_indent(example.solution) for example in [*field, *unheard]} == {"    "}


def _indent(source: str) -> str:
    """Return the white space before a class's first method."""
    found = re.search(r"^([ \t]+)def ", source.partition("(nn.Module):\n")[2], flags=re.MULTILINE)
    assert found is not None
    return found[1]


def test_numbers_that_a_model_keeps_go_by_their_names(field: list[Example]) -> None:
    """An answer reads `self.scale` where the program does: it need not know what the constructor was given."""
    num_kept = 0
    for example in field:
        program, _, forward = example.task.source.partition("def forward(")
        kept = set(re.findall(r"\bself\.((?:scal|mult|div|shift|min_|max_|negative_slope)\w*)\b", forward))
        kept = {name for name in kept if f"self.{name} = {name}\n" in program}
        if kept and example.style.startswith("composed"):
            answer = example.solution.partition("def forward(")[2].partition("\n\n\n")[0]
            assert all(f"self.{name}" in answer for name in kept), example.task.task_id
            num_kept += 1
    assert num_kept > 10


def _constructor(text: str, name: str) -> tuple[str, ...] | None:
    model = next(node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == name)
    for node in model.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            for argument in node.args.args:
                argument.annotation = None
            return tuple(ast.unparse(node.args).split(", "))
    return None


def test_profiles_change_sizes_wherever_they_are_written(field: list[Example], unheard: list[Example]) -> None:
    """Each profile's names are found by the verifier, and give the program other numbers."""
    for example in [*field, *unheard]:
        task = example.task
        assert task.tiny, task.task_id
        known = read_sizes(task.source)
        for profile in SIZES_OF:
            sizes = dict(task.constants(profile))
            assert sizes.keys() <= known.keys(), task.task_id
            changed = read_sizes(with_constants(task.source, task.constants(profile)))
            assert sizes.items() <= changed.items()


FORMS = {
    "the old form of super": r"super\(Model, self\)\.__init__\(\)",
    "a call of the class": r"nn\.Module\.__init__\(self\)",
    "hints": r"x: torch\.Tensor\) -> torch\.Tensor:",
    "documented arguments": r"Args:\n",
    "what is returned": r"Returns:\n",
    "a default": r"def __init__\(self, .*=",
    "keywords of a layer": r"nn\.Conv\dd\(\s*in_channels=",
    "a size of two names": r"^height = width = \d+$",
    "sizes on a line": r"^(depth, )?height, width = \d+, \d+",
    "a tuple of sizes": r"_shape = \(\d+, ",
    "a window of two sides": r"^kernel_size = \(\d, \d\)",
    "the shape of a vector": r"_shape = \(\w+, 1, 1\)",
    "plain sizes": r"torch\.randn\(\d+, \d+\)",
    "uniform inputs": r"torch\.rand\(",
    "named inputs": r"    x = torch\.randn",
    "functions by their long name": r"torch\.nn\.functional\.\w+\(",
    "methods": r"\.(sum|mean|softmax|relu|sigmoid)\(",
    "functions for arithmetic": r"torch\.(add|mul|matmul)\(",
    "modules in a row": r"nn\.Sequential\(",
    "a helper method": r"self\._?(activate|post|epilogue|tail|transform)\(",
    "parameters filled later": r"nn\.init\.normal_\(",
    "augmented assignment": r" [+*-]= ",
    "comments": r"  # \w+",
    "unused imports": r"^import math$",
    "keywords for the constructor": r"return \[\[\], \{",
    "sizes in capitals": r"^BATCH_SIZE = \d+",
    "numbers in capitals": r"^(SCALE|EPS|MIN_VALUE|MAX_VALUE) = ",
    "squares": r"\*\* ?2\b|\.square\(|\.pow\(",
    "a method for a root": r"\.(rms|_rms|inv_rms|root|_root|_inv_norm|_scale_of)\(\w+\)",
    "an assertion": r"^ +assert ",
    "further keywords": r"\*\*\w*kwargs",
    "a vector with leading ones": r"nn\.Parameter\(torch\.\w+\(1, \w+, 1",
    "a vector that gets its ones": r"self\.\w+(\.view\(1, -1, 1|\[None, :, None)",
    "a learned number": r"nn\.Parameter\(torch\.(tensor|full)\(",
    "an unused argument": r"dropout",
    "two steps in one statement": r"\w+ [*/] [\w.]+ [+-] self\.\w+$",
    "an activation written out": r"(\w+) \* torch\.sigmoid\(\1\)",
    "a dimension from the end": r"dim=-[23]\b",
    "a dimension by its place": r"\.(sum|mean|softmax|amax|amin)\(-?\d|torch\.(sum|mean|softmax)\(\w+, -?\d",
    "a dimension that is not kept": r"keepdim=False",
    "functions of nn": r"(?<!torch\.)\bnn\.functional\.\w+\(",
    "an input's second name": r"^        (identity|residual|shortcut|skip) = \w+$",
    "weights of the model's own": r"(linear|conv\dd)\(\w+, self\.\w+",
    "scaled inputs": r"\d \* torch\.randn\(|torch\.randn\(.*\) \* \d",
    "a step under a flag": r"^        if self\.(use|apply|with)_\w+:$",
    "options at their defaults": r"dilation=1|ceil_mode=False",
}


@pytest.mark.parametrize("form", FORMS)
def test_programs_are_written_in_many_forms(form: str, field: list[Example]) -> None:
    """Each form is met among the training tasks, in some of them and not in most."""
    met = sum(bool(re.search(FORMS[form], example.task.source, re.MULTILINE)) for example in field)
    assert 0 < met < 0.7 * len(field)


def test_what_heldout_dialects_do_alone_is_met_there_alone(field: list[Example], unheard: list[Example]) -> None:
    """Two spaces and `:param`, or sections with lines below them: no training task shows them."""
    for habit in (":param ", "\n  def forward", "----------\n"):
        assert any(habit in example.task.source for example in unheard)
        assert not any(habit in example.task.source for example in field)


def test_a_number_of_a_layer_is_read_from_the_layer(field: list[Example]) -> None:
    """Whether its author wrote it or named it, and though the constructor keeps it too; else it had to be looked up."""
    given: list[tuple[str, str]] = []
    for example in field:
        layers = re.findall(r"self\.(\w+) = nn\.(?:LeakyReLU|ELU|CELU)\(", example.task.source)
        forward = example.solution.partition("def forward")[2].partition("\n\n\ndef ")[0]
        numbers = re.findall(r"\b(?:slope|alpha)=([^,)\s]+)", forward)
        given += zip(layers, numbers, strict=True) if len(layers) == len(numbers) == 1 else []
    read = [number for layer, number in given if number.startswith(f"self.{layer}.")]
    assert len(given) > 3
    # two equal numbers may stand for one another
    assert len(read) >= len(given) - 1


def test_no_constant_is_asked_for_a_method(field: list[Example], unheard: list[Example]) -> None:
    """A number of the forward pass that has a name is no tensor: products with it stay operators."""
    for example in (*field, *unheard, render("l2-field_pool_then-e9045e3ec6df6adb")):
        tree = ast.parse(example.task.source)
        numbers = {
            ast.unparse(node.targets[0])
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                asked = node.args[:1] if ast.unparse(node.func) == "torch.mul" else [node.func.value]
                assert not {ast.unparse(part) for part in asked} & numbers, example.task.task_id
