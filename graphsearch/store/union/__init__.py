"""Putting what two files know together: records, plain tables, imports, books and entries, each by its rule.

`sweep/merge.py` and the room `query` (its `diff`) import it; `docs/merging.md` has the rules in words.
"""
