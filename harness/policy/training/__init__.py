"""Fine-tuning: packed rows, chunked losses, captured steps, several processes."""
