"""Questions to a stored graph, one file per question. They only read.

A question is a function of a file's path and a position; its answer has `as_dict`.
"""
