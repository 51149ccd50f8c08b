"""The explorer: a graph file in the browser.

`serving` is the server, `gate` controls access, `api/` answers requests, `jobs/` searches, imports and builds
in other processes, `static/` is the page.
"""
