"""Passes over every record of a file: refresh, reevaluate, merge."""
