"""Workers of a book: processes that search different subtrees of one file at once.

desk.py        what the builder sees: tasks in, outcomes out
seats.py       the processes: started, watched, replaced
ledger.py      which positions are being evaluated, by whom, and what came out
merging.py     what two workers know of one position
writer.py      the one writer of the file
leases.py      the table in which a person sees who works on what
messages.py    what is said between the processes
worker.py, remote.py, shared.py     the worker's side: its graph, its file, its evaluator

    builder --- desk --- a thread for each pipe of a worker ---+--- worker 1: Graph(SharedEvaluator, SharedStore)
                  |            |            |                  +--- worker 2
                seats        ledger       writer --- file <------- read by all workers
"""

from .desk import WorkerDesk

__all__ = ["WorkerDesk"]
