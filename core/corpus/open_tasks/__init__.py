"""Tasks without teachers: a grammar of heads and steps beyond the older families, and pairs that teach their parts."""
