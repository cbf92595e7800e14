"""Parts that corpus families are built from: operations, chains, sizes, wording, kernel bodies."""
