"""Merges two files: records, plain tables, imports, books and entries, each by its rule.

`docs/contributing/merging.md` has the rules in words.
"""
