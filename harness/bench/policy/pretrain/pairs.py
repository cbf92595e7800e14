"""Training pairs for pretraining: rendered and tokenised in worker processes, then packed into rows.

Pairs come from the training split alone. A stated share of the answers is made wrong on purpose (`corrupt`), so that
the pretrained model stays imperfect and SFT and RL have work to do. Each chunk of pairs has a seed derived from the
root seed and its number, so the data do not depend on how many workers made them.

A packed row holds whole documents one after another; attention and positions stop at their borders (`pretrain`), so
packing changes the speed and not the model.
"""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator
from itertools import islice

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from .....core.corpus import ALL_FAMILIES, SUITES, Split, examples
from .....core.corpus.corruption import corrupt
from .....core.seeds import derive
from .....core.task import Example
from .....core.text.prompts import assistant_message, user_message
from .tokenizer import TURN_END, render_prompt

FAMILY_NAMES: tuple[str, ...] = tuple(f"l{level}-{name}" for level, names in ALL_FAMILIES.items() for name in names)
CHUNK_PAIRS = 500


@frozen(kw_only=True)
class PairsRequest:
    """Which pairs of a suite to make: `num_pairs`, `level2_share` of them of level 2, `corrupted_share` spoilt."""

    num_pairs: int
    suite: str = "core13"
    level2_share: float = 0.5
    corrupted_share: float = 0.25
    split: Split = Split.TRAIN
    seed: int = 0
    label: str = "pretrain"


@frozen(kw_only=True)
class Documents:
    """Tokenised pairs, concatenated; `prompt_lengths` and `lengths` are in tokens, `families` index FAMILY_NAMES."""

    tokens: NDArray[np.uint16]
    lengths: NDArray[np.int32]
    prompt_lengths: NDArray[np.int32]
    families: NDArray[np.int16]


@frozen(kw_only=True)
class Rows:
    """Packed rows, all of shape (rows, row length).

    `kinds` is 0 for padding, 1 for a token of a prompt and 2 for one of an answer; `documents` numbers the documents
    of a row from 1 (0 for padding); `positions` restart with each document; `families` index FAMILY_NAMES.
    """

    tokens: NDArray[np.uint16]
    kinds: NDArray[np.uint8]
    documents: NDArray[np.uint8]
    positions: NDArray[np.int16]
    families: NDArray[np.int16]


def chunk_requests(request: PairsRequest) -> list[tuple[PairsRequest, int, int, int]]:
    """The request cut into (request, level, number of the chunk, pairs) for the workers."""
    chunks = []
    num_level2 = round(request.num_pairs * request.level2_share)
    for level, num_pairs in ((1, request.num_pairs - num_level2), (2, num_level2)):
        for number, start in enumerate(range(0, num_pairs, CHUNK_PAIRS)):
            chunks.append((request, level, number, min(CHUNK_PAIRS, num_pairs - start)))
    return chunks


def _answers(request: PairsRequest, level: int, number: int, num_pairs: int) -> Iterator[tuple[Example, str]]:
    """Each example of a chunk with its answer, spoilt or not."""
    rng = random.Random(derive(request.seed, request.label, "corruption", level, number))
    seed = derive(request.seed, request.label, "tasks", level, number)
    stream = examples(request.split, level, seed, SUITES[request.suite][level])
    for example in islice(stream, num_pairs):
        spoil = rng.random() < request.corrupted_share
        yield example, corrupt(example.solution, rng) if spoil else example.solution


def render_chunk(chunk: tuple[PairsRequest, int, int, int]) -> list[tuple[str, str, str]]:
    """(family, user message, assistant message) of each pair of a chunk."""
    return [
        (f"l{example.task.level}-{example.task.family}", user_message(example.task), assistant_message(solution))
        for example, solution in _answers(*chunk)
    ]


def _encode_chunk(job: tuple[tuple[PairsRequest, int, int, int], str, int]) -> Documents:
    """A chunk tokenised by the tokenizer in `path`; documents longer than `context` are left out."""
    from tokenizers import Tokenizer

    chunk, path, context = job
    tokenizer = Tokenizer.from_file(path)
    (end,) = tokenizer.encode(TURN_END).ids
    ids: list[int] = []
    lengths, prompt_lengths, families = [], [], []
    for family, user, answer in render_chunk(chunk):
        prompt = tokenizer.encode(render_prompt(user)).ids
        document = [*prompt, *tokenizer.encode(answer).ids, end]
        if len(document) <= context:
            ids += document
            lengths.append(len(document))
            prompt_lengths.append(len(prompt))
            families.append(FAMILY_NAMES.index(family))
    return Documents(
        tokens=np.array(ids, np.uint16),
        lengths=np.array(lengths, np.int32),
        prompt_lengths=np.array(prompt_lengths, np.int32),
        families=np.array(families, np.int16),
    )


def render_pairs(request: PairsRequest, jobs: int) -> list[tuple[str, str, str]]:
    """(family, user message, assistant message) of every pair, rendered by `jobs` processes."""
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        chunks = pool.map(render_chunk, chunk_requests(request), chunksize=1)
    return [pair for chunk in chunks for pair in chunk]


def encode_pairs(request: PairsRequest, tokenizer_path: str, context: int, jobs: int) -> Documents:
    """Every pair of the request, rendered and tokenised by `jobs` processes."""
    work = [(chunk, tokenizer_path, context) for chunk in chunk_requests(request)]
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        parts = pool.map(_encode_chunk, work, chunksize=1)
    return Documents(
        tokens=np.concatenate([part.tokens for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
        prompt_lengths=np.concatenate([part.prompt_lengths for part in parts]),
        families=np.concatenate([part.families for part in parts]),
    )


def pack(documents: Documents, row_length: int, seed: int, open_rows: int = 48) -> Rows:
    """Documents in a seeded random order, each put into the fullest open row that has room for it.

    A row is closed when the `open_rows` others are open and none has room; the rest of it is padding.
    """
    order = np.random.default_rng(seed).permutation(len(documents.lengths))
    rows: list[list[int]] = []
    opened: list[tuple[int, int]] = []  # (free tokens, row)
    for document in order:
        length = int(documents.lengths[document])
        fitting = [place for place, (free, _) in enumerate(opened) if free >= length]
        if fitting:
            place = min(fitting, key=lambda place: opened[place])
            free, row = opened[place]
        else:
            if len(opened) == open_rows:
                opened.remove(min(opened))
            place, free, row = len(opened), row_length, len(rows)
            opened.append((free, row))
            rows.append([])
        rows[row].append(int(document))
        opened[place] = (free - length, row)

    shape = (len(rows), row_length)
    packed = Rows(
        tokens=np.zeros(shape, np.uint16),
        kinds=np.zeros(shape, np.uint8),
        documents=np.zeros(shape, np.uint8),
        positions=np.zeros(shape, np.int16),
        families=np.zeros(shape, np.int16),
    )
    starts = np.concatenate([[0], np.cumsum(documents.lengths, dtype=np.int64)])
    for row, members in enumerate(rows):
        at = 0
        for number, document in enumerate(members, start=1):
            length, prompt = int(documents.lengths[document]), int(documents.prompt_lengths[document])
            span = slice(at, at + length)
            packed.tokens[row, span] = documents.tokens[starts[document] : starts[document + 1]]
            packed.kinds[row, at : at + prompt] = 1
            packed.kinds[row, at + prompt : at + length] = 2
            packed.documents[row, span] = number
            packed.positions[row, span] = np.arange(length)
            packed.families[row, span] = documents.families[document]
            at += length
    return packed
