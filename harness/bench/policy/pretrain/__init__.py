"""Pretraining of `nano`, the embedded policy."""
