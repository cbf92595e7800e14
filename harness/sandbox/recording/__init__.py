"""Record a candidate's forward pass as a launch plan."""
