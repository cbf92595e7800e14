"""Plausible mistakes, for pretraining text that is imperfect on purpose (see the bottom of the file)."""
import random


def corrupt(solution: str, rng: random.Random) -> str:
    return solution
