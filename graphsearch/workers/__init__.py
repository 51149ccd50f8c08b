"""Processes of this package: how one is started, spoken to, watched, replaced and ended.

`child` is one process, `calls` its pipes from another machine over `tcp`, `supervisor` watches several,
`jobs` deals one job out in parts. It imports `errors`; whatever works in several processes imports it.
"""
