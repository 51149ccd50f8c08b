"""Work for the page in other processes: searches, builds of books, imports, exports, and their queue.

A task is a request (`searching`, `files`), which `task_queue` runs in a process.
"""
