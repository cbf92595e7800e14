"""Completions in slots that never move: one token a step for all slots, as one captured graph on a GPU.

Everything that a step reads and writes stays at one address: weights, the pool of keys and values, and by row the
token to read next, lengths, uniforms, and what was written. A step works on the rows that a list names, so rows come
and go without anything being copied, and a graph is needed only for each size of that list: attention reads the
lengths where they are, so one graph serves all of them.

A prompt is read up to its last token, once for all its completions; that last token is the first that a row reads. So
a row starts like it goes on, and giving a row another completion of a prompt that is there costs nothing.

Keys and values of a layer lie in one pool of tokens, (tokens, heads, head size). A row's sequence is two extents of it:
its prompt, which rows may share, and its own tokens (`Places`). Tokens are drawn by inverting the cumulative
distribution at uniforms of each completion's own stream, so a completion depends on its seed alone, not on which others
are in the batch, but for floating-point noise in the logits.

Slots serve one request after the other (`serve`), also with fewer rows than they have: which graphs are used, and so
how many rows are computed together, follows from the request alone. What a request fixes in a graph, graphs are kept
by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch
from attrs import frozen
from torch import Tensor
from torch.nn import functional

from ..model.capturing import capture
from ..model.transformer import attend_causally
from .fused_model import PREFILL_TOKENS, FusedModel, pad

MOST_GRAPHS = 64
"""Requests have a few sizes and temperatures; graphs beyond that are those of sizes that do not come again."""


@frozen(kw_only=True)
class Sizes:
    """How many rows and prompts are held at once, and how many tokens of each."""

    rows: int
    prompts: int
    prompt_tokens: int
    new_tokens: int

    @property
    def num_tokens(self) -> int:
        """Tokens in a layer's pool; one row more than can be used stands for those that are not."""
        return self.prompts * self.prompt_tokens + (self.rows + 1) * self.new_tokens

    def num_bytes(self, model: FusedModel) -> int:
        """Bytes of a model's pool, and of what is there by row and token."""
        per_token = int(2 * len(model.layers) * model.num_kv_heads * model.size * model.dtype.itemsize)
        return per_token * self.num_tokens + 16 * (self.rows + 1) * self.new_tokens

    def hold(self, other: Sizes) -> bool:
        """Whether a request of the `other` sizes can be served; the limit of new tokens is fixed in graphs."""
        return (
            self.rows >= other.rows
            and self.prompts >= other.prompts
            and self.prompt_tokens >= other.prompt_tokens
            and self.new_tokens == other.new_tokens
        )


@frozen(kw_only=True)
class Drawing:
    """How tokens are drawn, and which of them end a completion."""

    ends: frozenset[int]
    temperature: float
    top_p: float


@frozen(kw_only=True)
class Start:
    """A completion that a row begins: the prompt's place and length, the last token of it, and the uniforms."""

    row: int
    prompt: int
    length: int
    token: int
    uniforms: np.ndarray[Any, np.dtype[np.float64]]


@frozen(kw_only=True, eq=False)
class Places:
    """Where each slot's sequence is in the pool, the token of this step included."""

    prompt_starts: Tensor
    prompt_lengths: Tensor
    own_starts: Tensor
    own_lengths: Tensor


def uniforms(seed: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Returns the first `count` numbers in [0, 1) of a seed's stream: (count,)."""
    return np.random.Generator(np.random.Philox(key=seed % 2**64)).random(count)


def draw(logits: Tensor, uniform: Tensor, temperature: float, top_p: float) -> Tensor:
    """Draw one token for each row of `logits`: (rows, vocabulary) and uniforms (rows,) to (rows,).

    Temperature 0 takes the likeliest. `top_p` below 1 draws from the smallest set of likeliest tokens that holds this
    share of the probability.
    """
    if temperature == 0.0:
        return logits.argmax(dim=-1)
    probabilities = (logits.float() / temperature).softmax(dim=-1)
    order = None
    if top_p < 1.0:
        probabilities, order = probabilities.sort(dim=-1, descending=True, stable=True)
        before = probabilities.cumsum(dim=-1) - probabilities
        probabilities = probabilities.masked_fill(before >= top_p, 0.0)
    cumulative = probabilities.cumsum(dim=-1)
    target = uniform.to(cumulative.dtype)[:, None] * cumulative[:, -1:]
    # the last token with any probability bounds the search: rounding must not select one without
    last = (cumulative < cumulative[:, -1:]).sum(dim=-1, keepdim=True)
    chosen = torch.searchsorted(cumulative, target, right=True).minimum(last)
    return (chosen if order is None else order.gather(-1, chosen))[:, 0]


def bucket(count: int, most: int) -> int:
    """The least of 8, 32, 128, 512, ... that is not below `count`, or `most`.

    A row that is not used costs little, while capturing a graph takes as long as dozens of steps.
    """
    size = 8
    while size < count:
        size *= 4
    return min(most, size)


class Slots:
    """The rows of one model on one device."""

    def __init__(
        self,
        model: FusedModel,
        operations: ModuleType,
        sizes: Sizes,
        drawing: Drawing,
        *,
        captures: bool,
    ) -> None:
        self.model, self.operations, self.sizes, self.captures = model, operations, sizes, captures
        device, dtype, rows = model.device, model.dtype, sizes.rows + 1
        shape = (sizes.num_tokens, model.num_kv_heads, model.size)
        self.keys = [torch.empty(shape, dtype=dtype, device=device) for _ in model.layers]
        self.values = [torch.empty(shape, dtype=dtype, device=device) for _ in model.layers]
        self.cosines, self.sines = model.tables(sizes.prompt_tokens + sizes.new_tokens)

        def per_row(*more: int, dtype: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(rows, *more, dtype=dtype, device=device)

        self.tokens, self.lengths, self.ended = per_row(), per_row(), per_row()
        self.prompt_starts, self.prompt_lengths = per_row(), per_row()
        self.own_starts = sizes.prompts * sizes.prompt_tokens + torch.arange(rows, device=device) * sizes.new_tokens
        self.uniforms = per_row(sizes.new_tokens, dtype=torch.float64)
        self.written = per_row(sizes.new_tokens)
        self.listed = torch.full((sizes.rows,), sizes.rows, dtype=torch.long, device=device)
        self.graphs: dict[tuple[Drawing, int], Any] = {}
        self.ends_of: dict[frozenset[int], Tensor] = {}
        self.memory: Any = None
        self.serve(drawing, sizes.rows)

    @property
    def num_bytes(self) -> int:
        """Bytes of all that is held, but for what a step needs while it runs."""
        return self.sizes.num_bytes(self.model)

    def serve(self, drawing: Drawing, rows: int) -> None:
        """Serve a request of at most so many `rows` from now on; every row is free."""
        if len(self.graphs) > MOST_GRAPHS:
            self.graphs, self.ends_of, self.memory = {}, {}, None
        if drawing.ends not in self.ends_of:
            listed = torch.tensor(sorted(drawing.ends), dtype=torch.long, device=self.model.device)
            self.ends_of[drawing.ends] = listed
        self.drawing, self.rows = drawing, rows

    def read(self, prompts: Sequence[Sequence[int]], places: Sequence[int]) -> None:
        """Put the keys and values of all tokens but the last of each prompt into the pool."""
        wanted = [(prompt[:-1], place) for prompt, place in zip(prompts, places, strict=True) if len(prompt) > 1]
        wanted.sort(key=lambda one: len(one[0]))
        while wanted:
            take = max(1, PREFILL_TOKENS // len(wanted[-1][0]))
            batch, wanted = wanted[-take:], wanted[:-take]
            tokens = pad([prompt for prompt, _ in batch], self.model.device)
            starts = torch.tensor([place * self.sizes.prompt_tokens for _, place in batch], device=tokens.device)
            self._read(tokens, starts)

    def _read(self, tokens: Tensor, starts: Tensor) -> None:
        model, (count, length) = self.model, tokens.shape
        steps = torch.arange(length, device=tokens.device)
        places = Places(
            prompt_starts=torch.zeros(count * length, dtype=torch.long, device=tokens.device),
            prompt_lengths=torch.zeros(count * length, dtype=torch.long, device=tokens.device),
            own_starts=starts.repeat_interleave(length),
            own_lengths=(steps + 1).repeat(count),
        )
        at = starts[:, None] + steps

        def attend(fused: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            queries = self.operations.place(fused, keys, values, places, self.cosines, self.sines, model.num_heads)
            parts = (queries.view(count, length, -1, model.size), keys[at], values[at])
            mixed = attend_causally(*(part.transpose(1, 2) for part in parts))
            return mixed.transpose(1, 2).reshape(count * length, -1)

        self._run(tokens.flatten(), attend)

    def _run(self, tokens: Tensor, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
        """All layers; the normalised hidden states."""
        model, operations = self.model, self.operations
        hidden, added = functional.embedding(tokens, model.embedding), None
        for number, layer in enumerate(model.layers):
            hidden, normed = operations.add_norm(hidden, added, layer.attention_norm, model.epsilon)
            mixed = attend(functional.linear(normed, *layer.projections), self.keys[number], self.values[number])
            mixed = functional.linear(mixed, *layer.output)
            hidden, normed = operations.add_norm(hidden, mixed, layer.feed_norm, model.epsilon)
            added = functional.linear(operations.gate(functional.linear(normed, *layer.gates)), *layer.down)
        result: Tensor = operations.add_norm(hidden, added, model.final_norm, model.epsilon)[1]
        return result

    def begin(self, starts: Sequence[Start]) -> None:
        """Give rows new completions."""
        device = self.model.device
        fields = [(one.row, one.prompt * self.sizes.prompt_tokens, one.length - 1, one.token) for one in starts]
        rows, prompt_starts, lengths, tokens = torch.tensor(fields, device=device).unbind(1)
        self.prompt_starts[rows], self.prompt_lengths[rows], self.tokens[rows] = prompt_starts, lengths, tokens
        self.lengths[rows] = self.ended[rows] = torch.zeros_like(rows)
        self.uniforms[rows] = torch.from_numpy(np.stack([one.uniforms for one in starts])).to(device)

    def advance(self, rows: Sequence[int], steps: int) -> list[int]:
        """Write `steps` tokens in each of these rows; how long each completion was when it ended, 0 where it goes on.

        A row that has ended, or is full, may go on with nothing of its completion lost.
        """
        size = bucket(len(rows), self.rows)
        graph = self._capture(size) if self.captures else None
        self._list(rows, size)
        for _ in range(steps):
            if graph is None:
                self._step(size)
            else:
                graph.replay()
        ended: list[int] = self.ended.cpu()[list(rows)].tolist()
        return ended

    def take(self, rows: Sequence[int]) -> list[list[int]]:
        """What was written in these rows, whole."""
        taken: list[list[int]] = self.written[torch.tensor(rows, device=self.model.device)].tolist()
        return taken

    def _list(self, rows: Sequence[int], size: int) -> None:
        unused = self.sizes.rows
        self.lengths[unused] = 0
        self.listed[:size] = torch.tensor([*rows, *[unused] * (size - len(rows))], device=self.listed.device)

    def _capture(self, size: int) -> Any:
        """The graph of one step for `size` rows."""
        key = (self.drawing, size)
        if key not in self.graphs:
            self._list([], size)
            graph = capture(lambda: self._step(size), self.model.device, self.memory)
            self.memory = graph.pool()
            self.graphs[key] = graph
        return self.graphs[key]

    def _step(self, size: int) -> None:
        """One token for the first `size` listed rows."""
        operations, drawing, rows = self.operations, self.drawing, self.listed[:size]
        most = self.sizes.new_tokens
        lengths = self.lengths[rows]
        at = lengths.clamp(max=most - 1)
        places = Places(
            prompt_starts=self.prompt_starts[rows],
            prompt_lengths=self.prompt_lengths[rows],
            own_starts=self.own_starts[rows],
            own_lengths=at + 1,
        )

        def attend(fused: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            mixed: Tensor = operations.attend(
                fused, keys, values, places, self.cosines, self.sines, self.model.num_heads
            )
            return mixed

        logits = functional.linear(self._run(self.tokens[rows], attend), self.model.head)
        chosen = operations.draw(logits, self.uniforms[rows, at], drawing.temperature, drawing.top_p)
        # what is past the last token is thrown away
        goes_on = lengths < most
        self.written[rows, at] = torch.where(goes_on, chosen, self.written[rows, at])
        ends = goes_on & (self.ended[rows] == 0) & (chosen[:, None] == self.ends_of[drawing.ends]).any(-1)
        self.ended[rows] = torch.where(ends, lengths + 1, self.ended[rows])
        self.tokens[rows] = chosen
        self.lengths[rows] = (lengths + 1).clamp(max=most)
