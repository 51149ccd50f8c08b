"""The explorer: a graph file in the browser.

`serving` is the server, `gate` checks who may come in, `api/` answers questions, `jobs/` searches, imports
and builds in other processes, `static/` is the page.
"""
