"""Measures again what is claimed of the verifier and the policy: the commands under `tritonrl bench`."""
