"""Open an evaluation of the configured policy, or of completions that were sampled elsewhere.

Sampling wants a GPU, judging processors and no model. Of an evaluation sampled elsewhere the units of work that hold
completions are taken over. Their keys say which policy, adapter, tasks, prompts, seeds and sampling they are of, so
that a completion of anything else is never found.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen

from ...core.config import Config, identity, merge
from ...core.recipe.learner import COMPLETIONS, Completion, OnDrawn, Sampling
from ...core.serialisation import differences, from_plain
from ..display import DisplayKind
from ..errors import UsageError
from ..metrics import open_progress
from ..policy.api_model import Untrained
from ..study.pipeline import CellContext, open_context
from ..study.store import Results
from ..tasks.batch import default_jobs
from ..work import WorkStore
from .asked import Criterion, TaskSelection
from .evaluation import Evaluation, EvaluationIdentity, fingerprint_adapter, identify_selection


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
    log: Sequence[str] = (),
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
    progress = open_progress(display, log, out)
    with ExitStack() as stack:
        stack.callback(progress.close)
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tritonrl-eval-")))
        results = Results(root=folder)

        @contextmanager
        def opened() -> Iterator[CellContext]:
            if drawn is not None:
                drawn.take_over(results.work)
            learner = None if drawn is None else drawn.learner
            with open_context(config, results, progress, jobs or default_jobs(), learner=learner) as context:
                yield context

        yield Evaluation(
            results=results,
            identity=identity,
            questions=questions,
            adapter=adapter,
            open_context=opened,
            progress=progress,
        )


_DRAWN_BY = ("seed", "policy", "evaluation")
"""The parts of a configuration that answers depend on."""


@frozen(kw_only=True)
class Absent(Untrained):
    """A `Learner` that was elsewhere: it has an identity, and all that it wrote is known already."""

    folder: Path
    fingerprint: str

    @property
    def refusal(self) -> str:
        """Return why nothing is trained."""
        return f"--answers {self.folder}: the model is not here"

    def sample(
        self,
        adapter: Path | None,
        prompts: Sequence[str],
        seeds: Sequence[int],
        sampling: Sampling,
        on_done: Callable[[int], None],
        on_drawn: OnDrawn = lambda *_: None,
    ) -> list[Completion]:
        """Called for what was not taken over; raises UsageError."""
        raise UsageError(f"--answers {self.folder}: not all of its answers are drawn; end that exam's command first")


@frozen(kw_only=True)
class SampledCompletions:
    """The answers of an exam's folder, and what they are answers to."""

    folder: Path
    config: Config
    questions: TaskSelection
    tasks: str
    adapter: str | None
    versions: dict[str, Any]
    learner: Absent

    def require_same(self, config: Config, tasks: str) -> None:
        """Raise UsageError where the answers were drawn otherwise, or to other tasks."""
        then, now = ({part: identity(one)[part] for part in _DRAWN_BY} for one in (self.config, config))
        changed = differences(then, now)
        if changed:
            raise UsageError(f"--answers {self.folder}: drawn otherwise: {'; '.join(changed)}")
        if tasks != self.tasks:
            raise UsageError(f"--answers {self.folder}: of other tasks than the suite has here")

    def take_over(self, work: WorkStore) -> None:
        """Store the answers that are there among other work."""
        work.take_over(Results(root=self.folder).work, COMPLETIONS)


def open_sampled(folder: Path) -> SampledCompletions:
    """What an exam's folder says of its answers; raises UsageError where there is no exam."""
    recorded = Results(root=folder).recorded() or {}
    if "exam" not in recorded:
        raise UsageError(f"--answers {folder}: no exam there")
    exam, asked = recorded["exam"], recorded.get("asked")
    if asked is None:
        raise UsageError(f"--answers {folder}: written by an earlier version, which did not record what was asked")
    return SampledCompletions(
        folder=folder,
        config=merge(recorded["config"]),
        questions=from_plain({key: value for key, value in asked.items() if key != "num_tasks"}, TaskSelection),
        tasks=exam["tasks"],
        adapter=exam["adapter"],
        versions=exam.get("drawn_with", recorded["versions"]),
        learner=Absent(folder=folder, fingerprint=recorded["policy"]),
    )
