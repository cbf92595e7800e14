"""Where candidates' code runs: forked, confined children that answer in plain data."""
