"""Opens an evaluation of the configured policy: its folder, its model and its verifier."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ...core.config import Config
from ..display import DisplayKind, open_display
from ..study.pipeline import CellContext, open_context
from ..study.store import Results
from ..tasks.batch import default_jobs
from ..verification.verifier import Verifier
from .evaluation import (
    BySuite,
    Criterion,
    Evaluation,
    EvaluationIdentity,
    TaskSelection,
    fingerprint_adapter,
    identify_selection,
)
from .sampled import SampledCompletions
from .suite_criterion import judge_by_suite


@contextmanager
def open_evaluation(
    config: Config,
    questions: TaskSelection,
    criterion: Criterion = Criterion.BOTH,
    adapter: Path | None = None,
    out: Path | None = None,
    display: DisplayKind | None = None,
    jobs: int | None = None,
    drawn: SampledCompletions | None = None,
    turns: int = 1,
) -> Iterator[Evaluation]:
    """An exam of the configured policy, with an adapter or without; the results are in `out`, where one is given.

    With `drawn` its answers are judged, which were drawn elsewhere, and no model is loaded. `turns`: so many answers a
    sample, each after the first with the reason why the one before was refused.
    """
    identity = EvaluationIdentity(
        config=config,
        policy="",
        backend="",
        tasks=identify_selection(config, questions),
        criterion=criterion,
        adapter=fingerprint_adapter(adapter) if drawn is None else drawn.adapter,
        drawn_with=None if drawn is None else drawn.versions,
        turns=turns,
    )
    if drawn is not None:
        drawn.require_same(config, identity.tasks)
    progress = open_display(display)
    with ExitStack() as stack:
        stack.callback(progress.close)
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tritonrl-eval-")))
        results = Results(root=folder)

        @contextmanager
        def open_with_criterion() -> Iterator[tuple[CellContext, BySuite]]:
            if drawn is not None:
                drawn.take_over(results.work)
            learner = None if drawn is None else drawn.learner
            with open_context(config, results, progress, jobs or default_jobs(), learner=learner) as context:
                assert isinstance(context.judge, Verifier)
                verifier_context = context.judge.context
                yield context, lambda task, source: judge_by_suite(task, source, verifier_context)

        yield Evaluation(
            results=results,
            identity=identity,
            questions=questions,
            adapter=adapter,
            open_context=open_with_criterion,
            progress=progress,
        )
