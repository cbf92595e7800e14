"""The recipe of training: the protocols that a cell asks a model and a verifier by, and their settings."""
