"""What a learner answers that has no weights here: it can be sampled, or be read, and not trained."""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import UsageError


class Untrained:
    """The operations of a `core.recipe.learner.Learner` that need a model's weights, each refused."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise UsageError with the learner's `refusal`."""
        raise UsageError(self.refusal)

    @property
    def refusal(self) -> str:
        """Return why nothing is trained."""
        raise NotImplementedError

    fits = reinforce = finetune = _refuse
