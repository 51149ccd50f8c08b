"""Worker processes, and the calls that they run.

executor.py        an executor that replaces workers that die or hang
local_workers.py   workers on this machine; ray_workers.py: on a Ray cluster
calls.py           the worker's side
process.py         signals and the end of processes; a child with a pipe, for the page
"""
