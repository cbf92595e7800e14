"""Reading and writing program text: extraction of answers, prompts, sizes in a task's source."""
