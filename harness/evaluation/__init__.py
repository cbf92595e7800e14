"""Exams: what a policy gets right of a suite, by our criterion and by the suite's own."""
