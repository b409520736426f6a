"""A kernel as a page: a model of all that there is to see (``data``), made from a kernel by pure
functions, and one file of HTML that shows it (design/0035-page.md).
"""
