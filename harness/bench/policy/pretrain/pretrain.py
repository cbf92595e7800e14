"""Pretrain `nano`, the embedded policy.

`python -m tritonrl.harness.bench.policy.pretrain.pretrain --out DIR --pairs N --minutes T` does it.

The recipe: render pairs of the training split, spoil a share of the answers, train the tokenizer, pack, and train a
Llama-type model until the time is over; the learning rate follows the time that has passed, so that the schedule ends
with it. The loss counts a prompt's tokens by `--prompt-weight` (0.1): prompts are learned a little, because reading a
task helps to copy its names and sizes. Checkpoints are written at fractions of the time, so that a base can be chosen
that is neither hopeless nor saturated; the choice is made on the validation split, never on the held-out one.

Speed: the rows live on the GPU, the loss is one compiled function of one static shape, attention is FlexAttention
over a block mask that ends at the documents' borders (a dense mask on the CPU, or with `--attention dense`).
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from attrs import asdict, evolve, frozen
from torch import Tensor
from torch.nn import functional

from .....core.corpus import TAUGHT_SUITES, Split
from .....core.seeds import derive
from ....policy.model.transformer import Attend, attend_densely, hidden_states, rotary_tables
from .pairs import FAMILY_NAMES, PairsRequest, Rows, encode_pairs, pack, render_pairs
from .tokenizer import render_prompt, train_tokenizer, with_chat_template


@frozen(kw_only=True)
class Recipe:
    """What pretraining does; every field is an option of the command."""

    pairs: int = 240_000
    suite: str = "core13"
    minutes: float = 4.0
    seed: int = 0
    corrupted_share: float = 0.25
    level2_share: float = 0.5
    prompt_weight: float = 0.1
    vocabulary: int = 4096
    context: int = 1024
    hidden: int = 256
    layers: int = 8
    heads: int = 4
    kv_heads: int = 2
    mlp: int = 768
    row_length: int = 2048
    batch_rows: int = 32
    learning_rate: float = 3e-3
    weight_decay: float = 0.1
    warmup_steps: int = 150
    decay_share: float = 0.3
    attention: str = "auto"
    compile: bool = True
    save_at: str = "0.4,0.7,1.0"
    validation_pairs: int = 1024
    tokenizer_pairs: int = 12_000
    log_every_s: float = 5.0
    jobs: int = 0


@frozen(kw_only=True)
class Data:
    """Packed rows as tensors on the training device; `targets` is each token's successor in its document."""

    tokens: Tensor
    targets: Tensor
    target_kinds: Tensor
    documents: Tensor
    positions: Tensor
    families: Tensor


def to_device(rows: Rows, device: torch.device, multiple: int) -> Data:
    """The rows on `device`; their number is filled up to a `multiple` with padding, so that shapes stay static."""
    missing = -len(rows.tokens) % multiple

    def load(array: Any, dtype: torch.dtype) -> Tensor:
        tensor = torch.from_numpy(array.astype("int32")).to(dtype)
        return functional.pad(tensor, (0, 0, 0, missing)).to(device)

    tokens, kinds = load(rows.tokens, torch.int32), load(rows.kinds, torch.int8)
    documents = load(rows.documents, torch.int32)
    same = functional.pad(documents[:, 1:] == documents[:, :-1], (0, 1)) & (documents > 0)
    return Data(
        tokens=tokens,
        targets=functional.pad(tokens[:, 1:], (0, 1)),
        target_kinds=functional.pad(kinds[:, 1:], (0, 1)) * same,
        documents=documents,
        positions=load(rows.positions, torch.int32),
        families=load(rows.families, torch.int32),
    )


def build_model(recipe: Recipe, tokenizer: Any) -> Any:
    """A Llama-type model of the recipe's size with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden,
        intermediate_size=recipe.mlp,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.kv_heads,
        max_position_embeddings=recipe.context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    torch.manual_seed(derive(recipe.seed, "pretrain", "weights") % 2**32)
    model = LlamaForCausalLM(config).float()
    for layer in model.model.layers:  # residual branches start small, as in GPT-2
        for projection in (layer.self_attn.o_proj, layer.mlp.down_proj):
            projection.weight.data.mul_((2 * recipe.layers) ** -0.5)
    return model


def token_losses(
    model: Any, tokens: Tensor, targets: Tensor, cosines: Tensor, sines: Tensor, mask: Any, flex: bool
) -> Tensor:
    """Cross-entropy of each token's successor; `mask` is FlexAttention's block mask, or a dense one."""
    attend: Attend
    if flex:
        from torch.nn.attention.flex_attention import flex_attention

        attend = partial(flex_attention, block_mask=mask, enable_gqa=True)
    else:
        attend = partial(attend_densely, mask=mask)
    hidden = hidden_states(model, tokens, cosines, sines, attend)
    logits = functional.linear(hidden, model.model.embed_tokens.weight).float()
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)


class Trainer:
    """The model with its compiled loss; holds the one document buffer that the block mask's closure reads."""

    def __init__(self, recipe: Recipe, model: Any, device: torch.device) -> None:
        self.recipe, self.model, self.device = recipe, model, device
        self.cosines, self.sines = rotary_tables(model.config, recipe.context, device, torch.float32)
        chosen = recipe.attention if recipe.attention != "auto" else ("flex" if device.type == "cuda" else "dense")
        self.flex = chosen == "flex"
        documents = torch.zeros(recipe.batch_rows, recipe.row_length, dtype=torch.int32, device=device)

        def allowed(row: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return (query >= key) & (documents[row, query] == documents[row, key])

        self.documents, self.allowed = documents, allowed
        wrap = torch.compile if recipe.compile else (lambda function: function)
        self.loss_function = wrap(token_losses)
        if self.flex:
            from torch.nn.attention.flex_attention import create_block_mask

            self.create_mask = wrap(create_block_mask)

    def _mask(self) -> Any:
        rows, length = self.documents.shape
        if self.flex:
            return self.create_mask(self.allowed, rows, None, length, length, device=str(self.device))
        causal = torch.ones(length, length, dtype=torch.bool, device=self.device).tril()
        return causal & (self.documents[:, None, :, None] == self.documents[:, None, None, :])

    def losses(self, data: Data, numbers: Tensor) -> Tensor:
        """The loss of each target token in the rows `numbers`: (rows, tokens)."""
        tokens, positions = data.tokens[numbers].long(), data.positions[numbers].long()
        self.documents.copy_(data.documents[numbers])
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            result: Tensor = self.loss_function(
                self.model,
                tokens,
                data.targets[numbers].long(),
                self.cosines[positions][:, None],
                self.sines[positions][:, None],
                self._mask(),
                self.flex,
            )
        return result

    def training_loss(self, data: Data, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """The weighted loss that is minimised, and the plain mean loss of answer tokens."""
        losses, kinds = self.losses(data, numbers), data.target_kinds[numbers]
        answers = (kinds == 2).float()
        weights = answers + self.recipe.prompt_weight * (kinds == 1)
        return (losses * weights).sum() / weights.sum(), ((losses * answers).sum() / answers.sum()).detach()

    def warm_up(self, data: Data, validation: Data) -> None:
        """Compile: one step without an update, and one validation."""
        started = time.perf_counter()
        torch.autograd.backward(self.training_loss(data, torch.arange(self.recipe.batch_rows, device=self.device))[0])
        self.model.zero_grad(set_to_none=True)
        loss = self.validation(validation)["all"]
        print(f"warm-up in {time.perf_counter() - started:.1f} s; validation loss {loss} before training", flush=True)

    @torch.no_grad()
    def validation(self, data: Data) -> dict[str, float]:
        """Mean loss of answer tokens for each family, and over all as `all`."""
        sums = torch.zeros(2, len(FAMILY_NAMES), device=self.device)
        for numbers in torch.split(torch.arange(len(data.tokens), device=self.device), self.recipe.batch_rows):
            chosen = data.target_kinds[numbers] == 2
            families = data.families[numbers][chosen].long()
            losses = self.losses(data, numbers)[chosen].float()
            sums[0].index_add_(0, families, losses)
            sums[1].index_add_(0, families, torch.ones_like(losses))
        means = (sums[0] / sums[1]).tolist()
        report = {name: round(mean, 4) for name, mean in zip(FAMILY_NAMES, means, strict=True) if mean == mean}
        return {"all": round((sums[0].sum() / sums[1].sum()).item(), 4), **report}


def batches(num_rows: int, size: int, seed: int, device: torch.device) -> Iterator[Tensor]:
    """Endless batches of row numbers, a new seeded order each epoch."""
    generator = torch.Generator().manual_seed(seed % 2**62)
    while True:
        order = torch.randperm(num_rows, generator=generator)
        yield from torch.split(order[: num_rows // size * size].to(device), size)


def learning_rate_share(recipe: Recipe, step: int, progress: float) -> float:
    """The learning rate as a share of its peak: warm-up by steps, then by the share of the time that has passed."""
    return min(1.0, (step + 1) / recipe.warmup_steps) * min(1.0, (1.0 - progress) / recipe.decay_share)


def save_checkpoint(model: Any, tokenizer: Any, folder: Path) -> None:
    """Weights in bfloat16, configuration, generation settings and tokenizer, as `from_pretrained` reads them."""
    exported = copy.deepcopy(model).to("cpu", torch.bfloat16)
    exported.generation_config.eos_token_id = tokenizer.eos_token_id
    exported.generation_config.pad_token_id = tokenizer.pad_token_id
    exported.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    tokenizer.save_pretrained(folder)


def make_optimizer(recipe: Recipe, model: Any, device: torch.device) -> torch.optim.Optimizer:
    """AdamW with weight decay on matrices alone."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": recipe.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.95), fused=device.type == "cuda")


def train(trainer: Trainer, data: Data, validation: Data, tokenizer: Any, out: Path) -> dict[str, Any]:
    """Train until the time is over; returns the log: loss curve, validations and checkpoints."""
    recipe, model, device = trainer.recipe, trainer.model, trainer.device
    optimizer = make_optimizer(recipe, model, device)
    order = batches(len(data.tokens), recipe.batch_rows, derive(recipe.seed, "pretrain", "order"), device)
    log: dict[str, Any] = {"curve": [], "validations": [], "checkpoints": []}
    fractions = sorted(float(text) for text in recipe.save_at.split(","))
    limit_s, tokens_per_step = recipe.minutes * 60.0, recipe.batch_rows * recipe.row_length
    paused, step, logged = 0.0, 0, (0.0, 0)
    loss_sum, loss_steps = torch.zeros((), device=device), 0
    started = time.perf_counter()
    while fractions:
        elapsed = time.perf_counter() - started - paused
        progress = min(1.0, elapsed / limit_s)
        if progress >= fractions[0]:
            fraction, pause = fractions.pop(0), time.perf_counter()
            folder = out / f"checkpoint-{fraction:.2f}"
            save_checkpoint(model, tokenizer, folder)
            report = trainer.validation(validation)
            log["validations"].append({"fraction": fraction, "step": step, "losses": report})
            log["checkpoints"].append(str(folder))
            print(f"saved {folder.name} at step {step}: validation {json.dumps(report)}", flush=True)
            paused += time.perf_counter() - pause
            continue
        share = learning_rate_share(recipe, step, progress)
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * share
        loss, answer_loss = trainer.training_loss(data, next(order))
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step, loss_steps = step + 1, loss_steps + 1
        loss_sum += answer_loss
        if elapsed - logged[0] >= recipe.log_every_s:
            mean = (loss_sum / loss_steps).item()  # waits for the GPU
            elapsed = time.perf_counter() - started - paused
            rate = (step - logged[1]) * tokens_per_step / (elapsed - logged[0])
            epoch = step * recipe.batch_rows / len(data.tokens)
            point = {
                "seconds": round(elapsed, 1),
                "step": step,
                "epoch": round(epoch, 2),
                "answer_loss": round(mean, 4),
            }
            log["curve"].append({**point, "learning_rate": optimizer.param_groups[0]["lr"], "tokens_s": round(rate)})
            print(json.dumps(log["curve"][-1]), flush=True)
            loss_sum, loss_steps, logged = torch.zeros((), device=device), 0, (elapsed, step)
    log.update(steps=step, tokens=step * tokens_per_step, seconds=round(time.perf_counter() - started - paused, 1))
    return log


def parse_arguments(arguments: list[str]) -> tuple[Recipe, argparse.Namespace]:
    program = "python -m tritonrl.harness.bench.policy.pretrain.pretrain"
    parser = argparse.ArgumentParser(prog=program, description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoints and training.json")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, default in asdict(Recipe()).items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(default, bool):
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=default)
        else:
            parser.add_argument(flag, type=type(default), default=default, help=f"default {default}")
    options = parser.parse_args(arguments)
    if options.suite not in TAUGHT_SUITES:
        parser.error(f"--suite {options.suite}: must be one of {', '.join(TAUGHT_SUITES)}")
    return Recipe(**{name: getattr(options, name) for name in asdict(Recipe())}), options


def main(arguments: list[str]) -> None:
    from transformers.utils.logging import disable_progress_bar

    recipe, options = parse_arguments(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    device, jobs = torch.device(options.device), recipe.jobs or os.cpu_count() or 1
    torch.set_float32_matmul_precision("high")
    disable_progress_bar()  # one line each five seconds is enough
    seconds = {}

    begun = time.perf_counter()
    chosen = {name: getattr(recipe, name) for name in ("suite", "level2_share", "corrupted_share", "seed")}
    request = PairsRequest(num_pairs=recipe.pairs, **chosen)
    sample = evolve(request, num_pairs=recipe.tokenizer_pairs, label="tokenizer", corrupted_share=0.0)
    texts = (render_prompt(user) + answer for _, user, answer in render_pairs(sample, jobs))
    tokenizer = with_chat_template(train_tokenizer(texts, recipe.vocabulary), recipe.context)
    tokenizer.save_pretrained(options.out / "tokenizer")
    seconds["tokenizer"], begun = round(time.perf_counter() - begun, 1), time.perf_counter()
    print(f"tokenizer of {len(tokenizer)} tokens in {seconds['tokenizer']} s", flush=True)

    path = str(options.out / "tokenizer" / "tokenizer.json")
    documents = encode_pairs(request, path, recipe.context, jobs)
    rows = pack(documents, recipe.row_length, derive(recipe.seed, "pretrain", "packing") % 2**32)
    held = evolve(sample, num_pairs=recipe.validation_pairs, split=Split.VALIDATION, label="valid")
    validation_rows = pack(encode_pairs(held, path, recipe.context, min(jobs, 4)), recipe.row_length, 0)
    seconds["pairs"] = round(time.perf_counter() - begun, 1)
    facts = {
        "num_pairs": len(documents.lengths),
        "left_out": recipe.pairs - len(documents.lengths),
        "tokens_a_pair": round(float(documents.lengths.mean()), 1),
        "prompt_tokens_a_pair": round(float(documents.prompt_lengths.mean()), 1),
        "longest_answer": int((documents.lengths - documents.prompt_lengths).max()),
        "rows": len(rows.tokens),
        "filled": round(float((rows.kinds > 0).mean()), 4),
    }
    print(f"pairs in {seconds['pairs']} s: {json.dumps(facts)}", flush=True)

    model = build_model(recipe, tokenizer).to(device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{parameters:,} parameters", flush=True)
    trainer = Trainer(recipe, model, device)
    data, validation = (to_device(part, device, recipe.batch_rows) for part in (rows, validation_rows))
    trainer.warm_up(data, validation)
    log = train(trainer, data, validation, tokenizer, options.out)
    log = {"recipe": asdict(recipe), "parameters": parameters, "data": facts, "preparation_seconds": seconds, **log}
    (options.out / "training.json").write_text(json.dumps(log, indent=1))
    print(f"trained on {log['tokens']:,} tokens in {log['seconds']} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
