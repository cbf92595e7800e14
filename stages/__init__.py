"""The verification stages: pure functions from a candidate's evidence to a decision."""
