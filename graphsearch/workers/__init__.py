"""Worker processes, and the calls that they run.

executor.py      an executor that replaces workers that die or hang, and the calls that they run
process.py       workers on this machine; a child with a pipe, for the page
ray_workers.py   workers on a Ray cluster
"""
