"""inspect_ai on two tasks, with the teachers' answers in the place of a model's: shows the scorer and a second turn.

With a real model no file is needed: inspect eval tritonrl/kernels --model openai/MODEL -T num=20 -T turns=2
"""

from __future__ import annotations

import json

from inspect_ai import eval as run
from inspect_ai.model import ModelOutput, get_model
from tritonrl import chat_prompt, load_tasks
from tritonrl.core.corpus import render
from tritonrl.core.text.prompts import assistant_message
from tritonrl.harness.adapters.inspect_tasks import kernels


def main() -> None:
    """Answer the first task wrongly and then rightly, and the second one rightly; print what inspect_ai measured."""
    first, second = load_tasks("core13:heldout", 1)
    assert chat_prompt(first)[0]["role"] == "user"
    answers = ["I cannot do that.", *(assistant_message(render(one.task_id).solution) for one in (first, second))]
    outputs = [ModelOutput.from_content("mockllm/model", answer) for answer in answers]
    model = get_model("mockllm/model", custom_outputs=outputs)
    task = kernels(num=1, turns=2)
    (log,) = run(task, model=model, max_samples=1, display="none", log_dir="build/inspect")
    scores = {
        f"{score.name}/{name}": metric.value for score in log.results.scores for name, metric in score.metrics.items()
    }
    turns = [sum(message.role == "assistant" for message in sample.messages) for sample in log.samples]
    print(json.dumps({"status": log.status, "scores": scores, "turns": turns}))


if __name__ == "__main__":
    main()
