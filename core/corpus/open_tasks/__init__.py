"""Tasks without teachers: a grammar of heads and steps that no family with a teacher can write."""
