"""The checks of the full stage: one pure module each, and the table of them."""
