"""Benchmarks and measuring tools, which nothing else imports."""
