"""Processes of this package: how one is started, spoken to, watched, replaced and ended.

process.py      what all of them do about signals, threads, and the end of their parent
child.py        one process, its pipes, and the threads that listen to them
messages.py     what all of them say
supervisor.py   some workers: who does what, who hangs, and what happens when one is lost
jobs.py         the same for whoever has one job at a time, in parts

This room knows the errors only. Whatever works in several processes may import it.
"""

from .child import Child, Pipe
from .jobs import Job, JobSupervisor, Part
from .messages import Beat, Failure, Leave, Ready, failure_of
from .process import cores_per_worker, end_at_once
from .supervisor import Assignment, Seat, Supervisor, WorkerHandle

__all__ = [
    "Assignment",
    "Beat",
    "Child",
    "Failure",
    "Job",
    "JobSupervisor",
    "Leave",
    "Part",
    "Pipe",
    "Ready",
    "Seat",
    "Supervisor",
    "WorkerHandle",
    "cores_per_worker",
    "end_at_once",
    "failure_of",
]
