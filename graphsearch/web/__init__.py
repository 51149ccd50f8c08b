"""The explorer: a graph file in the browser.

`serving` is the server, `gate` controls access, `questions`, `actions` and `studies` answer requests, `tasks`
search, import and build in other processes, which `task_queue` starts, and `static/` is the page.
"""
