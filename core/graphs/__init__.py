"""Operation graphs: the records, their normal form, and the hash that compares computations."""
