"""What is claimed of the verifier, measured again: the commands under `tritonrl bench` and what they run."""
