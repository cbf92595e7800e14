"""`tritonrl rl`: reinforcement learning alone, examined before and after, with its curves."""
