"""Run candidates' code in forked, confined children that answer in plain data."""
