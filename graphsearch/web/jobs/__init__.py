"""Work for the page in other processes: searches, builds of books, imports, exports, and their queue.

`desk` deals them out, `worker` does them.
"""
