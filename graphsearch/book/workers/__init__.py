"""Workers of a book: processes that search different subtrees of one file at once.

desk.py        what the builder sees: tasks in, outcomes out
crew.py        who works on what, and what happens when a worker is lost
seats.py       the processes, their pipes, and the threads that listen to them
ledger.py      which positions are being evaluated, by whom, and what came out
merging.py     what two workers know of one position
writer.py      the one writer of the file
leases.py      the table in which a person sees who works on what
messages.py    what is said between the processes
worker.py, remote.py, shared.py     the worker's side: its graph, its file, its evaluator

    builder --- desk --- a thread for each pipe of a worker ---+--- worker 1: a Graph over
                  |            |            |                  |    SharedEvaluator and SharedStore
                crew         ledger       writer --- file <----+--- worker 2
"""

from .desk import WorkerDesk

__all__ = ["WorkerDesk"]
