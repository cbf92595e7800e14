"""The verifier: the probes that find out about a candidate, the oracle that they ask, and the verdict."""
