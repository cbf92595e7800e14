"""Sampling completions: a fused decoder with a pool of key-value slots, a CPU decoder, vLLM."""
