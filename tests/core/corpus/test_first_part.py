"""The first part of the corpus renders as it did when the presets and the published results were made."""

from __future__ import annotations

import hashlib
from itertools import islice

import pytest
from tritonrl.core.corpus import SUITES, Split, examples, render, tasks

RENDERED = {
    "l1-unary-9e3779b97f4a7c15": "f4fedba0f2094a54",
    "l1-binary-6fecc3ec50dd6918": "fedffdf83f9b5502",
    "l1-reduction-41a20e1f2270561b": "7339767f111c244e",
    "l1-argmax-13575851f403431e": "251d38aea8c0f0a3",
    "l1-softmax-e50ca284c5963021": "0e23c7ee23f8196a",
    "l1-log_softmax-b6c1ecb797291d24": "99359e8af0664593",
    "l1-layer_norm-887736ea68bc0a27": "4033f3386dec77b7",
    "l1-rms_norm-5a2c811d3a4ef72a": "0437d2d3a11d10b0",
    "l1-matmul-2be1cb500be1e42d": "2f0f496781a1306a",
    "l2-linear_chain-fd971582dd74d130": "a7ddf31f211d12ef",
    "l2-matmul_chain-cf4c5fb5af07be33": "78a90b7617121895",
    "l2-norm_chain-a101a9e8809aab36": "157bbe679a95021a",
    "l2-reduction_chain-72b6f41b522d9839": "9a827302cdfa1fe3",
    "l1-unary-3c6ef372fe94f82a": "0b077b7b385e7719",
    "l1-binary-0e243da5d027e52d": "9113f3867c954362",
    "l1-reduction-dfd987d8a1bad230": "c77902c10b88c775",
    "l1-argmax-b18ed20b734dbf33": "5b9fb311252eebdf",
    "l1-softmax-83441c3e44e0ac36": "923e7731cf768f45",
    "l1-log_softmax-54f9667116739939": "8f84bca2c70a2287",
    "l1-layer_norm-26aeb0a3e806863c": "5d9863b487f56eab",
    "l1-rms_norm-f863fad6b999733f": "05123bd117385935",
    "l1-matmul-ca1945098b2c6042": "c0af27225aa316b1",
    "l2-linear_chain-9bce8f3c5cbf4d45": "c24fd9c6edfbb767",
    "l2-matmul_chain-6d83d96f2e523a48": "51757761e4917395",
    "l2-norm_chain-3f3923a1ffe5274b": "e1b058b3faa9e616",
    "l2-reduction_chain-10ee6dd4d178144e": "ef1bccf5e78a084d",
    "l1-unary-daa66d2c7ddf743f": "fa5275bcf6a31cf2",
    "l1-binary-ac5bb75f4f726142": "88a3a4814877e823",
    "l1-reduction-7e11019221054e45": "147019ed9abf486a",
    "l1-argmax-4fc64bc4f2983b48": "9a533d2278499025",
    "l1-softmax-217b95f7c42b284b": "345919b04d90f0a7",
    "l1-log_softmax-f330e02a95be154e": "6cb11a9908ca4001",
    "l1-layer_norm-c4e62a5d67510251": "bacff785169fbae7",
    "l1-rms_norm-969b749038e3ef54": "ad36201921a7f1d6",
    "l1-matmul-6850bec30a76dc57": "df07fd682a016fbf",
    "l2-linear_chain-3a0608f5dc09c95a": "6fc7cf5dc3515b0c",
    "l2-matmul_chain-0bbb5328ad9cb65d": "f4677fb9e1f0173f",
    "l2-norm_chain-dd709d5b7f2fa360": "0b18e6313b28fc15",
    "l2-reduction_chain-af25e78e50c29063": "b30bcef4865fd8f2",
    "l1-unary-78dde6e5fd29f054": "1ad83149f1e1f7aa",
    "l1-binary-4a933118cebcdd57": "4d9f5790eff9a26f",
    "l1-reduction-1c487b4ba04fca5a": "7841d8f5e761ce95",
    "l1-argmax-edfdc57e71e2b75d": "2646a98b26eb1e8d",
    "l1-softmax-bfb30fb14375a460": "a53883ef1e8f046b",
    "l1-log_softmax-916859e415089163": "8664e1b40bdca59f",
    "l1-layer_norm-631da416e69b7e66": "b06de43ae429c052",
    "l1-rms_norm-34d2ee49b82e6b69": "c47a2a01fb1be1c4",
    "l1-matmul-0688387c89c1586c": "74f65290813a3815",
    "l2-linear_chain-d83d82af5b54456f": "fbd4cd9589042be2",
    "l2-matmul_chain-a9f2cce22ce73272": "25b0097f6a579304",
}
STREAMS = {
    (Split("train"), 1): "ed27e5c70d9ae2b2",
    (Split("train"), 2): "59af947e8ea803cf",
    (Split("validation"), 1): "42a7aa78caa55de5",
    (Split("validation"), 2): "92629e216c2ec5ed",
    (Split("heldout"), 1): "b4a01136f8fd3ffb",
    (Split("heldout"), 2): "a6beb608312e6089",
}
WHOLE_SUITES = {
    "core13": "a170e4464ac38455",
    "full": "b52312ca100e21a4",
    "extended": "391429e66311a89c",
}
"""Of the first 60 tasks of each level and split: the ids and the programs."""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize("task_id", list(RENDERED))
def test_an_id_of_the_first_part_renders_the_text_it_always_did(task_id: str) -> None:
    """Reference, solution, description, dtypes, sizes and style are byte for byte those of the first release."""
    example = render(task_id)
    task = example.task
    contract = repr((task.dtypes, task.tiny, task.small, task.larger, example.style))
    assert digest("\0".join((task.source, example.solution, task.description, contract))) == RENDERED[task_id]


@pytest.mark.parametrize(("split", "level"), list(STREAMS))
def test_streams_of_the_first_part_name_the_tasks_they_always_did(split: Split, level: int) -> None:
    """A stream for which no families are named gives the first part's tasks, in the same order."""
    ids = [example.task.task_id for example in islice(examples(split, level, 11), 60)]
    assert digest(repr(ids)) == STREAMS[split, level]


@pytest.mark.parametrize("suite", list(WHOLE_SUITES))
def test_suites_with_published_figures_draw_what_they_always_did(suite: str) -> None:
    """What is taught for open tasks beside them changes no draw of theirs, byte for byte."""
    drawn = [
        (task.task_id, task.source)
        for split in Split
        for level, names in SUITES[suite].items()
        for task in islice(tasks(split, level, 7, names), 60)
    ]
    assert digest(repr(drawn)) == WHOLE_SUITES[suite]
