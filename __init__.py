"""tritonrl: reinforcement learning for Triton kernel generation, and the ablation of its recipe."""
