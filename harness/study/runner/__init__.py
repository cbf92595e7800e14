"""Runs of a grid: in this process, in local workers, and by Ray or SLURM."""
