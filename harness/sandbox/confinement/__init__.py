"""Keep a candidate's process away from everything but its own work."""
