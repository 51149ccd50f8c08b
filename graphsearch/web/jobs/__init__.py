"""Work for the page in other processes: searches, builds of books, imports, exports, and their queue.

A task is a request (`task`, `searching`, `files`). `task_queue` starts the processes, `worker` runs in them.
"""
