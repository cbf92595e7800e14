"""What a plan needs of a device: memory, loaded kernels, and graphs."""
