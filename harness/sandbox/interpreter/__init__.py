"""Run launch plans on the CPU with Triton's interpreter."""
