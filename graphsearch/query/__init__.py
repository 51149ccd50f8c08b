"""Questions to a stored graph, one file per question. They only read.

`cli`, `exchange` and `web` import it, to export what a question answers and to show it. A question is a
function of a file's path and a position; its answer has `as_dict`.
"""
