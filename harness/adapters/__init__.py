"""The verifier inside other people's trainers and evaluation harnesses; one module a tool.

A module imports its tool, so it is imported by that tool alone; `scorer` and `rewards` need none.
"""
