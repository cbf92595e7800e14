"""Pretraining: the pairs, their packing, the isolation of documents, and the whole command at a tiny size."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tritonrl.core.config import PolicyConfig
from tritonrl.harness.bench.policy.pretrain import pretrain
from tritonrl.harness.bench.policy.pretrain.pairs import Documents, PairsRequest, chunk_requests, pack, render_chunk
from tritonrl.harness.policy.model.load import load_policy
from tritonrl.harness.policy.model.transformer import rotary_tables

documents = st.lists(st.integers(1, 40), min_size=1, max_size=60)


def make_documents(lengths: list[int]) -> Documents:
    count = sum(lengths)
    return Documents(
        tokens=(np.arange(count) + 1).astype(np.uint16),
        lengths=np.array(lengths, np.int32),
        prompt_lengths=np.array([length // 2 for length in lengths], np.int32),
        families=np.arange(len(lengths)).astype(np.int16),
    )


@given(documents, st.integers(0, 5), st.integers(1, 4))
def test_packing_keeps_every_document(lengths: list[int], seed: int, open_rows: int) -> None:
    """Every document is in the rows once, whole, with its own positions, and nothing else is."""
    source = make_documents(lengths)
    rows = pack(source, 48, seed, open_rows)
    found = {}
    for row in range(len(rows.tokens)):
        for number in range(1, rows.documents[row].max() + 1):
            span = rows.documents[row] == number
            assert rows.positions[row][span].tolist() == list(range(span.sum()))
            family = set(rows.families[row][span].tolist())
            assert len(family) == 1
            kinds = rows.kinds[row][span].tolist()
            assert kinds == [1] * (len(kinds) // 2) + [2] * (len(kinds) - len(kinds) // 2)
            found[family.pop()] = rows.tokens[row][span].tolist()
    starts = np.cumsum([0, *lengths])
    assert found == {n: source.tokens[starts[n] : starts[n + 1]].tolist() for n in range(len(lengths))}
    assert (rows.kinds > 0).sum() == sum(lengths)


def test_chunks_make_up_the_request() -> None:
    """The chunks hold as many pairs of each level as asked for, and are the same when made again."""
    request = PairsRequest(num_pairs=1100, level2_share=0.5)
    chunks = chunk_requests(request)
    assert sum(chunk[3] for chunk in chunks) == 1100
    assert sum(chunk[3] for chunk in chunks if chunk[1] == 2) == 550
    small = (request, 2, 1, 6)
    assert render_chunk(small) == render_chunk(small)
    assert render_chunk(small) != render_chunk((request, 2, 0, 6))


@pytest.mark.parametrize("attention", ["dense", "flex"])
def test_documents_are_isolated(attention: str) -> None:
    """A packed document has the losses that it has alone in the model's own forward pass."""

    class Tokenizer:
        eos_token_id, pad_token_id = 1, 0

        def __len__(self) -> int:
            return 50

    recipe = pretrain.Recipe(
        hidden=32, layers=2, heads=4, kv_heads=2, mlp=48, context=64, row_length=128, batch_rows=1,
        attention=attention, compile=False,
    )  # fmt: skip
    model = pretrain.build_model(recipe, Tokenizer()).eval()
    trainer = pretrain.Trainer(recipe, model, torch.device("cpu"))
    rows = pack(make_documents([30, 50, 20]), 128, 0)
    rows.tokens[:] %= 50
    data = pretrain.to_device(rows, torch.device("cpu"), 1)
    with torch.no_grad():
        losses = trainer.losses(data, torch.arange(1))[0]
        for number in (1, 2, 3):
            span = (data.documents[0] == number).nonzero()[:, 0]
            tokens = data.tokens[0, span].long()
            logits = model(tokens[None]).logits[0, :-1]
            expected = torch.nn.functional.cross_entropy(logits, tokens[1:], reduction="none")
            torch.testing.assert_close(losses[span[:-1]], expected, rtol=1e-4, atol=1e-4)
            assert data.target_kinds[0, span[-1]] == 0


def test_rotary_tables_are_transformers() -> None:
    """Cosines and sines are those of the model's own rotary embedding."""

    class Tokenizer:
        eos_token_id, pad_token_id = 1, 0

        def __len__(self) -> int:
            return 50

    model = pretrain.build_model(pretrain.Recipe(hidden=32, layers=1, heads=2, kv_heads=1, mlp=16), Tokenizer())
    positions = torch.arange(20)
    expected = model.model.rotary_emb(torch.zeros(1, 20, 16), positions[None])
    actual = rotary_tables(model.config, 20, torch.device("cpu"), torch.float32)
    for table, reference in zip(actual, expected, strict=True):
        torch.testing.assert_close(table, reference[0])


def test_learning_rate_ends_at_zero() -> None:
    """It warms up by steps and reaches zero when the time is over."""
    recipe = pretrain.Recipe(warmup_steps=10)
    assert pretrain.learning_rate_share(recipe, 0, 0.0) == pytest.approx(0.1)
    assert pretrain.learning_rate_share(recipe, 99, 0.0) == 1.0
    assert pretrain.learning_rate_share(recipe, 99, 1.0) == 0.0


def test_the_whole_command(tmp_path: Path) -> None:
    """A tiny run writes loadable checkpoints and a log with falling loss."""
    sizes = "--hidden 32 --layers 1 --heads 2 --kv-heads 1 --mlp 48 --vocabulary 400 --row-length 2048 --context 2048"
    amounts = "--pairs 40 --minutes 0.05 --tokenizer-pairs 40 --validation-pairs 10 --batch-rows 1 --warmup-steps 2"
    other = "--jobs 1 --no-compile --device cpu --save-at 0.5,1.0 --log-every-s 0.5"
    pretrain.main([*sizes.split(), *amounts.split(), *other.split(), "--out", str(tmp_path)])
    log = json.loads((tmp_path / "training.json").read_text())
    losses = [validation["losses"]["all"] for validation in log["validations"]]
    assert len(losses) == 2
    assert losses[-1] < np.log(400)
    policy = load_policy(PolicyConfig(name=str(tmp_path / "checkpoint-1.00")), device="cpu")
    assert policy.model.num_parameters() == log["parameters"]
