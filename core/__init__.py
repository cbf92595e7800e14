"""The pure core: records, configuration and decisions; imports no torch, no triton, and has no effects."""
