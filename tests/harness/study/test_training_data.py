"""What training draws: pairs of files and of the corpus, and none that equals a task of the suite in `against`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tritonrl.core.config import Config, ConfigError, merge
from tritonrl.core.corpus import Split, split_of
from tritonrl.core.graphs.normal_form import NORMAL_FORM
from tritonrl.core.recipe.extensions import CellSpec
from tritonrl.core.text.extraction import extract
from tritonrl.core.text.prompts import user_message
from tritonrl.harness.datasets.pairs import Flaw, identify_pairs
from tritonrl.harness.display import Progress
from tritonrl.harness.errors import DriftError, UsageError
from tritonrl.harness.reference.graph.operation_trace import fingerprint_task
from tritonrl.harness.study import contamination as admission_module
from tritonrl.harness.study.cell import SFT
from tritonrl.harness.study.contamination import Admission, identify_against, open_admission
from tritonrl.harness.study.grid import parse_grid, run_grid
from tritonrl.harness.study.store import Results
from tritonrl.harness.study.task_draws import evaluation_tasks, root_seed, round_tasks, supervised_examples
from tritonrl.harness.study.training_data import describe, draw_training_data
from tritonrl.harness.verification.verifier import Verifier
from tritonrl.harness.work import WorkStore

from ..context_stub import TeacherLearner, solutions, stub_context, tiny_config
from ..datasets.made_up_pairs import make_row, write_parquet

SUITE = {"evaluation": {"level1_tasks": 9, "level2_tasks": 4}, "sft": {"num_pairs": 30}, "against": "evaluation"}


def _fits(pairs: Sequence[tuple[str, str]]) -> list[bool]:
    return [True] * len(pairs)


@pytest.fixture(scope="module")
def admission(tmp_path_factory: pytest.TempPathFactory) -> Admission:
    """What a run of the first part's families refuses because its own evaluation has it."""
    found = open_admission(merge(SUITE), WorkStore(root=tmp_path_factory.mktemp("work")))
    assert found is not None
    return found


def test_training_shares_no_graph_with_the_evaluation(admission: Admission) -> None:
    """No pair and no task of a round equals a held-out task, where without the key most of Level 1 does."""
    config = merge(SUITE)
    assert admission.graphs == {fingerprint_task(task) for task in evaluation_tasks(config)}
    root = root_seed(config, 0)
    drawn = [example.task for example in supervised_examples(config, root, admission.admits)]
    drawn += [task for number in range(3) for task in round_tasks(root, number, (1, 2), "core13", admission.admits)]
    assert len(drawn) == 30 + 6
    assert {split_of(task) for task in drawn} == {Split.TRAIN}
    assert not admission.graphs & {fingerprint_task(task) for task in drawn}
    plain = [example.task for example in supervised_examples(config, root)]
    assert admission.graphs & {fingerprint_task(task) for task in plain}
    assert admission.refused
    removed = admission.count_removed()
    assert sum(entry["number"] for entry in removed) == len(admission.refused)
    assert {entry["equals"].partition(" ")[0] for entry in removed} <= {t.task_id for t in evaluation_tasks(config)}


def test_what_is_admitted_keeps_its_order() -> None:
    """Where nothing is refused the draws are those without a filter, and a refused family gives its turn away."""
    config, root = merge(SUITE), 5
    plain = list(supervised_examples(config, root))
    assert list(supervised_examples(config, root, lambda _: True)) == plain
    without = list(supervised_examples(config, root, lambda task: task.family != "softmax"))
    assert len(without) == len(plain)
    assert {example.task.family for example in plain} - {e.task.family for e in without} == {"softmax"}
    assert round_tasks(root, 0, (1,) * 9, "core13", lambda _: True) == round_tasks(root, 0, (1,) * 9)
    families = [task.family for task in round_tasks(root, 0, (1,) * 9, "core13", lambda t: t.family != "softmax")]
    assert "softmax" not in families
    assert len(families) == 9


def test_processes_write_the_same_pairs_in_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many processes write them, and levels have the shares that the configuration says."""
    monkeypatch.setattr("tritonrl.harness.study.task_draws.RENDERED_ASIDE", 1)
    config = merge({"suite": "field", "sft": {"num_pairs": 20, "level2_share": 0.4, "level3_share": 0.1}})
    drawn = list(supervised_examples(config, 3))
    assert list(supervised_examples(config, 3, jobs=2)) == drawn
    assert [example.task.level for example in drawn] == [1] * 10 + [2] * 8 + [3] * 2
    with pytest.raises(UsageError, match="core13 has no level 3"):
        list(supervised_examples(merge({"sft": {"level3_share": 0.1}}), 3))


def test_nothing_left_to_train_on_is_a_usage_error() -> None:
    """Where a suite has everything, the run ends in one line before anything is trained."""
    with pytest.raises(UsageError, match="level 1 has 0 tasks left"):
        list(supervised_examples(merge(SUITE), 0, lambda task: task.level == 2))
    with pytest.raises(UsageError, match="no family of level 2 has a task left"):
        round_tasks(0, 0, (1, 2), "core13", lambda task: task.level == 1)


def test_a_suite_of_another_name_is_refused_at_once(tmp_path: Path) -> None:
    """`against` names a suite or the evaluation; another name is one line that says which there are."""
    config = merge({"against": "core13:novel"})
    with pytest.raises(UsageError, match=r"against = core13:novel: .*; or evaluation"):
        run_grid(Results(root=tmp_path), config, (), range(1), lambda: pytest.fail("opened"), Progress())
    assert identify_against(Config()) is None
    with pytest.raises(ConfigError, match="against"):
        merge({"against": " "})


@pytest.mark.parametrize("against", ["evaluation", "core13:heldout"])
def test_hashes_of_another_normal_form_are_not_compared(against: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a store holds of a suite is another thing once the rules have changed that its graphs were hashed by."""
    monkeypatch.setattr(admission_module, "NUM_OF_OURS", 3)
    config = merge({**SUITE, "against": against})
    before = identify_against(config)
    identify_against.cache_clear()
    monkeypatch.setattr(admission_module, "NORMAL_FORM", NORMAL_FORM + 1)
    assert identify_against(config) != before
    identify_against.cache_clear()


def test_rows_that_equal_a_held_out_task_are_left_out(tmp_path: Path, admission: Admission) -> None:
    """A data set's programs are compared as the corpus' tasks are; one that cannot be is left out as well."""
    held_out = evaluation_tasks(merge(SUITE))[0]
    rows = [
        make_row(),
        make_row(python_code=make_row()["python_code"] + "\nraise RuntimeError('not today')\n"),
        make_row(python_code=held_out.source.replace("Model", "ShiftedGate")),
    ]
    path = write_parquet(tmp_path / "rows.parquet", rows)
    config = merge({**SUITE, "sft": {"num_pairs": 9, "data": f"kernelbook:{path}"}})
    data = draw_training_data(config, 0, _fits, admission)
    assert len(data.pairs) == 1
    assert dict(data.left_out) == {Flaw.SHARED: 1, Flaw.NOT_COMPARED: 1}
    assert "left out: 1 for the same computation as a task that is left out" in describe(data.plain())
    assert "in evaluation as well: pairs from files" in describe(data.plain())


def test_teachers_pairs_that_are_too_long_are_left_out_and_counted() -> None:
    """A policy with a short context is trained on what it can read, and the run says how much that is not."""
    config = merge({"sft": {"num_pairs": 30}})
    whole = draw_training_data(config, 0, _fits, None)
    lengths = sorted(len(prompt) + len(answer) for prompt, answer in whole.pairs)
    data = draw_training_data(config, 0, lambda pairs: [sum(map(len, pair)) <= lengths[19] for pair in pairs], None)
    assert len(data.pairs) == 20
    assert dict(data.left_out) == {Flaw.TOO_LONG: 10}
    assert "20 pairs of teachers of core13; 30 looked at; left out: 10 for longer than" in describe(data.plain())
    with pytest.raises(UsageError, match="no pair to train on; 0 pairs of teachers"):
        draw_training_data(config, 0, lambda pairs: [False] * len(pairs), None)


def test_no_pair_at_all_is_a_usage_error_with_the_reasons(tmp_path: Path) -> None:
    """A data set of which nothing can be used ends in one line that says why."""
    path = write_parquet(tmp_path / "rows.parquet", [make_row(), make_row(entry_point="Other")])
    config = merge({"sft": {"data": f"kernelbook:{path}"}})
    with pytest.raises(UsageError, match=r"no pair to train on.*1 for no class .*, 1 for longer than the policy"):
        draw_training_data(config, 0, lambda pairs: [False] * len(pairs), None)


def test_a_start_on_a_file_is_known_by_its_rows(tmp_path: Path) -> None:
    """The start trains on the file's pairs and says so; another file in its place is another experiment."""
    path = tmp_path / "rows.parquet"
    other = make_row(python_code=make_row()["python_code"].replace("[4, 8]", "[5, 8]"))
    write_parquet(path, [make_row(), other, make_row(triton_code="")])
    config = tiny_config(sft={"num_pairs": 2, "data": f"kernelbook:{path}"})
    results = Results(root=tmp_path / "out")
    learner = TeacherLearner(answers=solutions(config, range(1)))
    outcome = run_grid(results, config, (), range(1), lambda: stub_context(results, config, learner), Progress())
    assert outcome.num_complete == 1
    adapter = results.root / results.read("cells")["adapter"][0]
    story = json.loads(adapter.with_name("data.json").read_text())
    assert (story["num_pairs"], story["num_rows"]) == (2, 3)
    assert set(results.read("cells")["cell"]) == {SFT}

    write_parquet(path, [other])
    identify_pairs.cache_clear()  # as a later process would find it
    with pytest.raises(DriftError, match=f"files: kernelbook:{path} has changed since$"):
        run_grid(results, config, parse_grid("none"), range(1), lambda: pytest.fail("opened"), Progress())


def test_data_that_cannot_be_used_claims_no_folder(tmp_path: Path) -> None:
    """After the file is corrected, the same command runs in the same folder."""
    path = write_parquet(tmp_path / "rows.parquet", [make_row(triton_code="")])
    config = tiny_config(sft={"num_pairs": 2, "data": f"kernelbook:{path}"})
    results = Results(root=tmp_path / "out")
    with pytest.raises(UsageError, match="no pair to train on"):
        run_grid(results, config, (), range(1), lambda: stub_context(results, config), Progress())
    assert results.recorded() is None
    write_parquet(path, [make_row()])
    identify_pairs.cache_clear()
    assert run_grid(results, config, (), range(1), lambda: stub_context(results, config), Progress()).num_complete == 1


def test_launches_of_teachers_are_drawn_where_asked(verifier: Verifier) -> None:
    """Drawn launches are other answers to the same prompts, the same for a seed, and right."""
    plain, drawn = (
        merge({"suite": "field", "sft": {"num_pairs": 6, "draw_launches": asked}}) for asked in (False, True)
    )
    root = root_seed(plain, 1)
    before, after, again = (draw_training_data(config, root, _fits, None).pairs for config in (plain, drawn, drawn))
    assert after == again
    assert [prompt for prompt, _ in after] == [prompt for prompt, _ in before]
    assert all(
        answer != other and "num_warps=" in answer for (_, answer), (_, other) in zip(after, before, strict=True)
    )
    answers = dict(after)
    for example in supervised_examples(drawn, root):
        source = extract(answers[user_message(example.task)])
        assert verifier.verify(example.task, source or "", CellSpec.parse("none").verifier).correct


def test_drawn_launches_need_teachers() -> None:
    """Solutions of a file have launches of their own."""
    with pytest.raises(ConfigError, match="draw_launches"):
        merge({"sft": {"data": "pairs.jsonl", "draw_launches": True}})
