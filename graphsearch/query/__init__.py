"""Questions to a stored graph. They only read, also while a search writes the file.

A question is a function of the path of a file, some also of records in memory (`source.Records`), and of a
position; its answer has `as_dict`. It raises StoreError if the file cannot be read, InvalidPositionError for
an illegal position and, unless it says otherwise, UnknownPositionError for one that is not stored. Docstrings
name other errors only.
"""
