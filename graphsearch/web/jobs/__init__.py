"""Work for the page in other processes: searches, builds of books, imports, exports, and their queue.

`task_queue` starts the processes, `worker` runs in them.
"""
