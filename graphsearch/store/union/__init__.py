"""Merges graph files: records, plain tables, imports, books and entries, each by its own rules.

`docs/contributing/merging.md` explains the rules.
"""
