"""The effects: sandboxes, models, files, processes and clocks."""
