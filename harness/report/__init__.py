"""The report of a results folder: for a terminal, as Markdown, as JSON, as one HTML page, and as a published folder.

All forms show one analysis. What is a table in one is the same table in the others: it is built once (`sections`), and
each number in it knows where in the analysis it stands (`figures`), so no form can show a figure that another lacks.
"""
