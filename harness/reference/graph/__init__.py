"""The operation graph of a reference program, traced on tensors without values."""
