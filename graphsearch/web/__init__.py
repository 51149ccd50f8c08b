"""The explorer: a graph file in the browser.

`serving` is the server, `gate` controls access, `answers` answers requests, `tasks` run in other processes,
which `task_queue` starts, and `static/` is the page.
"""
