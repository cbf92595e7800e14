"""A task's reference program: built, given sizes at which it runs, and traced without values."""
