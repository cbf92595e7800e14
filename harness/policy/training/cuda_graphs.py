"""Microbatches of fixed sizes, whose forward and backward pass one captured graph launches at once.

A step of a model of 135 M parameters is a few thousand small kernels, and launching them takes longer than computing
them. A captured graph launches all of them together, but its sizes are fixed, so rows, answers and borders are filled
up: tokens to a multiple of `GRAIN` with one more document that nobody reads, answers with places that count nothing,
borders with documents of no tokens. The sizes of a whole training are known before its first step, and captured then
(`StaticSteps.prepare`): of several processes each has its own, and would have the others wait at a step. A size that
comes too seldom to repay its capture is computed without.

Capturing leaves the random streams as they were, so that dropout draws what it would draw without graphs.

Graphs add to gradients that stay where they are (`descent`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import torch
from attrs import fields, frozen
from torch import Tensor

from ..model.capturing import run_aside
from ..model.transformer import Attend, attend_by_borders, by_lengths, has_kernel
from .chunked_loss import answer_loss
from .descent import Gradients
from .packing import Pair, join

GRAIN = 1024
"""Rows are filled up to a multiple of so many tokens; a finer grain fills less up and captures more sizes."""
CAPTURED_FROM_USES = 8
"""A capture takes as long as some three passes without a graph, each of which takes a few times as long as a replay."""
_ANSWER_GRAIN = 512
_DOCUMENT_GRAIN = 16


@frozen(kw_only=True)
class Sizes:
    """What a graph fixes: tokens of the row, places for answers, and documents."""

    tokens: int
    answers: int
    documents: int


Objective = Callable[[Tensor, Tensor, "Tensor | None", Tensor], tuple[Tensor, Tensor]]
"""(hidden states (answers, size), targets (answers,), head, numbers (kinds, answers)) -> loss, and the step's sums.

`numbers` are what the objective asks of each token of an answer, its weight first: where that is zero, nothing counts.
"""


def weighted_loss(hidden: Tensor, targets: Tensor, head: Tensor | None, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Fine-tuning's objective: the weighted sum of cross-entropies."""
    assert head is not None
    loss = answer_loss(hidden, targets, head, numbers[0])
    return loss, loss.detach()[None]


def even_weights(pairs: Sequence[Pair], num_answers: int) -> Tensor:
    """Fine-tuning's numbers (1, answers): a token counts one of so many."""
    return torch.full((1, sum(len(tokens) - prompt for tokens, prompt in pairs)), 1.0 / num_answers)


@frozen(kw_only=True, eq=False)
class Inputs:
    """What a graph reads: all of a row, where answers stand, what each counts, and where documents start and end."""

    tokens: Tensor
    positions: Tensor
    answers: Tensor
    numbers: Tensor
    borders: Tensor

    def to(self, device: torch.device) -> Inputs:
        return Inputs(**{name: getattr(self, name).to(device) for name in _INPUTS})


_INPUTS = tuple(attribute.name for attribute in fields(Inputs))


def sizes_of(pairs: Sequence[Pair]) -> Sizes:
    tokens = sum(len(tokens) for tokens, _ in pairs)
    answers = tokens - sum(prompt for _, prompt in pairs)
    # one document more, for what fills the row up
    numbers = ((tokens, GRAIN), (answers, _ANSWER_GRAIN), (len(pairs) + 1, _DOCUMENT_GRAIN))
    rounded = [-(-number // grain) * grain for number, grain in numbers]
    return Sizes(tokens=rounded[0], answers=min(rounded[:2]), documents=rounded[2])


def fill_up(pairs: Sequence[Pair], sizes: Sizes, numbers: Tensor) -> Inputs:
    """The pairs as tensors of these sizes on the CPU; places without an answer's token have zeros for numbers."""
    row = join(pairs)
    missing = sizes.tokens - len(row.tokens)
    spare = sizes.answers - len(row.answers)
    lengths = [*row.lengths, missing]
    borders = [0, *accumulate(lengths), *[sizes.tokens] * (sizes.documents - len(lengths))]
    return Inputs(
        tokens=torch.tensor([*row.tokens, *[0] * missing]),
        positions=torch.tensor([*row.positions, *range(missing)]),
        answers=torch.tensor([*row.answers, *[1] * spare]),
        numbers=torch.nn.functional.pad(numbers, (0, spare)),
        borders=torch.tensor(borders, dtype=torch.int32),
    )


class StaticSteps:
    """Adds what microbatches contribute to `gradients`; `longest` is the longest document's number of tokens.

    The model computes as it does when a size is captured, so training has to be switched on before. `objective` is
    what is minimised, with so many `num_numbers` of each token.
    """

    def __init__(
        self,
        hidden: Callable[[Tensor, Tensor, Attend], Tensor],
        head: Tensor,
        longest: int,
        gradients: Gradients,
        objective: Objective = weighted_loss,
        num_numbers: int = 1,
    ) -> None:
        self.objective, self.num_numbers = objective, num_numbers
        self.hidden, self.head, self.longest, self.gradients = hidden, head, longest, gradients
        self.captures = head.is_cuda
        self.pool: Any = torch.cuda.graph_pool_handle() if self.captures else None
        self.graphs: dict[Sizes, tuple[Inputs, Any, Tensor]] = {}

    def prepare(self, coming: Iterable[Sequence[Pair]], on_captured: Callable[[], None] = lambda: None) -> None:
        """Capture the sizes that come often among these microbatches, the largest first: its memory serves the others.

        `on_captured` is called after each; a capture takes some tenths of a second.
        """
        if not self.captures:
            return
        found: dict[Sizes, Sequence[Pair]] = {}
        uses: Counter[Sizes] = Counter()
        for pairs in coming:
            sizes = sizes_of(pairs)
            found.setdefault(sizes, pairs)
            uses[sizes] += 1
        for sizes in sorted(found, key=lambda one: (one.tokens, one.answers, one.documents), reverse=True):
            if uses[sizes] >= CAPTURED_FROM_USES and sizes not in self.graphs:
                nothing = torch.zeros(self.num_numbers, sum(len(tokens) - prompt for tokens, prompt in found[sizes]))
                self.graphs[sizes] = self._capture(fill_up(found[sizes], sizes, nothing))
                on_captured()

    def __call__(self, pairs: Sequence[Pair], numbers: Tensor) -> Tensor:
        """The pairs' part of a step's sums, the loss first; `numbers` (kinds, answers) are of their answers' tokens."""
        sizes = sizes_of(pairs)
        filled = fill_up(pairs, sizes, numbers)
        if sizes not in self.graphs:
            return self._run(filled.to(self.head.device))
        inputs, graph, sums = self.graphs[sizes]
        for name in _INPUTS:
            getattr(inputs, name).copy_(getattr(filled, name).pin_memory(), non_blocking=True)
        graph.replay()
        return sums

    def _run(self, inputs: Inputs) -> Tensor:
        attend: Attend
        if has_kernel(self.head.device, self.head.dtype):
            attend = by_lengths(inputs.borders, self.longest)
        else:
            attend = partial(attend_by_borders, borders=inputs.borders)
        hidden = self.hidden(inputs.tokens, inputs.positions, attend)
        targets = inputs.tokens[inputs.answers]
        states = hidden.index_select(0, inputs.answers - 1)
        loss, sums = self.objective(states, targets, self.head, inputs.numbers)
        torch.autograd.backward(loss)
        return sums

    def _capture(self, filled: Inputs) -> tuple[Inputs, Any, Tensor]:
        device = self.head.device
        inputs = filled.to(device)
        kept = self.gradients.keep()
        # the run beside draws from the device's generator, a capture does not, and a replay draws as a run does
        with torch.random.fork_rng(devices=[device]):
            run_aside(lambda: self._run(inputs), device)
            graph = torch.cuda.CUDAGraph()
            # other threads may go on with what capturing forbids, as the one does that watches over the processes' sums
            with torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
                sums = self._run(inputs)
        for stretch, before in kept:
            stretch.copy_(before)
        return inputs, graph, sums
