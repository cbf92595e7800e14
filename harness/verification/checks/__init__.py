"""The probes of the full stage's checks, one module each."""
