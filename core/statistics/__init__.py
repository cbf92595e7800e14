"""Estimates and their uncertainty: intervals, the factorial effects of a grid, and tests of many of them."""
