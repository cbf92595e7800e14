"""The ablation: its cells, what they train on, where they run, and the folder that holds what they found."""
