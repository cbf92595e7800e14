"""Replace what Triton's interpreter computes unlike a compiled kernel."""
