"""inspect_ai on two tasks, with the teachers' answers in the place of a model's: shows the scorer and a second turn.

With a real model no file is needed: inspect eval tritonrl/kernels --model openai/MODEL -T num=20 -T turns=2
"""

from __future__ import annotations

import json

from inspect_ai import eval as run
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from tritonrl import load_tasks
from tritonrl.core.corpus import render
from tritonrl.core.text.prompts import assistant_message

USAGE = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)  # else inspect_ai downloads a tokenizer to count


def main() -> None:
    """Answer the first task wrongly and then rightly, and the second one rightly; print what inspect_ai measured."""
    right = [assistant_message(render(task.task_id).solution) for task in load_tasks("core13:heldout", 1)]
    outputs = [ModelOutput.from_content("mockllm/model", answer) for answer in ["I cannot do that.", *right]]
    for output in outputs:
        output.usage = USAGE
    (log,) = run(
        "tritonrl/kernels",
        model=get_model("mockllm/model", custom_outputs=outputs),
        task_args={"num": 1, "turns": 2},
        max_samples=1,
        display="none",
        log_dir="build/inspect",
    )
    if log.results is None or log.samples is None:
        raise SystemExit(str(log.error))
    scores = {f"{one.name}/{name}": metric.value for one in log.results.scores for name, metric in one.metrics.items()}
    turns = [sum(message.role == "assistant" for message in sample.messages) for sample in log.samples]
    print(json.dumps({"status": log.status, "scores": scores, "turns": turns}))


if __name__ == "__main__":
    main()
