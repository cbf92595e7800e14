"""The reward for verl: name this file, and the data that `tritonrl tasks export --format verl` wrote.

    python -m verl.trainer.main_ppo data.train_files=train.parquet data.val_files=heldout.parquet \\
        reward.custom_reward_function.path=docs/recipes/verl_reward.py \\
        reward.custom_reward_function.name=compute_score ...

The reward manager `batch` calls `compute_scores`. Beside the score, verl logs whether each kernel compiles and is
correct, the verifier's reason and its seconds. Run with a Parquet file, this scores the teachers' answers to its tasks
by verl's own loader and reward manager.
"""

from __future__ import annotations

from typing import Any

from tritonrl import compute_score, compute_scores

__all__ = ["compute_score", "compute_scores"]


def main(parquet: str) -> None:
    """Load data, function and reward manager as verl does, and print what it makes of the teachers' answers."""
    import asyncio
    import json

    import numpy as np
    import torch
    from omegaconf import OmegaConf
    from tritonrl import load_policy
    from tritonrl.core.corpus import render
    from tritonrl.core.text.prompts import assistant_message
    from verl import DataProto
    from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
    from verl.trainer.ppo.reward import get_custom_reward_fn
    from verl.utils.dataset.rl_dataset import RLHFDataset

    _, tokenizer = load_policy("nano", "cpu")
    function = {"path": __file__, "name": "compute_score"}
    config = OmegaConf.create({"reward": {"custom_reward_function": function}, "data": {}})
    rows = RLHFDataset(
        parquet, tokenizer, OmegaConf.create({"max_prompt_length": 2048, "filter_overlong_prompts": False})
    )

    async def score() -> list[dict[str, Any]]:
        # a manager keeps the event loop in which it is made
        manager = get_reward_manager_cls("naive")(config, tokenizer, get_custom_reward_fn(config))
        found = []
        for number in range(len(rows)):
            row = rows[number]
            answer = assistant_message(render(row["reward_model"]["ground_truth"]).solution)
            tokens = torch.tensor([tokenizer.encode(answer, add_special_tokens=False)])
            batch = DataProto.from_dict(
                tensors={"responses": tokens, "attention_mask": torch.ones_like(tokens), "prompts": tokens[:, :0]},
                non_tensors={
                    key: np.array([row[key]], dtype=object) for key in ("data_source", "reward_model", "extra_info")
                },
            )
            found.append(await manager.run_single(batch))
        return found

    results = asyncio.run(score())
    scores = [result["reward_score"] for result in results]
    print(json.dumps({"scores": scores, "logged": sorted(results[0]["reward_extra_info"])}))


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
