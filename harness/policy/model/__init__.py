"""Language models: shapes, weights, forward pass, LoRA adapters, tokenizer."""
