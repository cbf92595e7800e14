"""Sizes at which a reference runs: the declared ones read, and smaller ones found."""
