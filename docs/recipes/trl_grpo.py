"""GRPO with TRL on the embedded policy: three steps, with the verifier's reasons in TRL's log of completions.

    tritonrl tasks export --format trl --suite core13:train -n 8 --out prompts.jsonl
    python docs/recipes/trl_grpo.py prompts.jsonl

Prompts are chat messages, so that TRL applies the model's chat template: with bare text the embedded policy answers one
token, and every reward is 0. Any other model takes nano's place by its name: `load_policy("Qwen/Qwen2.5-Coder-1.5B")`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from datasets import Dataset
from tritonrl import Scorer, load_policy, make_trl_reward
from trl import GRPOConfig, GRPOTrainer


def main() -> None:
    """Train, then print the mean reward of each step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--policy", default="nano")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("build/trl"))
    arguments = parser.parse_args()
    rows = [json.loads(line) for line in arguments.prompts.read_text().splitlines()]
    model, tokenizer = load_policy(arguments.policy)
    settings = GRPOConfig(
        output_dir=str(arguments.out),
        max_steps=arguments.steps,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=1024,
        temperature=0.7,
        learning_rate=1e-5,
        logging_steps=1,
        log_completions=True,
        num_completions_to_print=2,
        save_strategy="no",
        report_to="none",
        bf16=False,
        seed=0,
    )
    with Scorer(jobs=2) as scorer:  # the block ends its sandbox, so train inside it
        trainer = GRPOTrainer(
            model=model,
            processing_class=tokenizer,
            reward_funcs=[make_trl_reward(scorer)],
            train_dataset=Dataset.from_list(rows),
            args=settings,
        )
        trainer.train()
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    print(json.dumps({"rewards": rewards}))


if __name__ == "__main__":
    main()
