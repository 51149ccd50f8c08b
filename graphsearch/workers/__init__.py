"""Processes of this package: starts, watches, replaces and ends them, and talks to them.

`child` is one process, `calls` its pipes from another machine over `tcp`, `supervisor` watches several,
`jobs` splits one job into parts.
"""
