"""Measurements of sampling and training, and the pretraining of the embedded policy."""
