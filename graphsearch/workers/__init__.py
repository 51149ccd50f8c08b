"""Worker processes: a launcher starts them, a supervisor watches and replaces them.

launcher.py      starts workers: process.py on this machine, ray_workers.py on a Ray cluster
supervisor.py    assigns work, kills hung workers, replaces lost ones
messages.py      messages of all workers; they travel by pipes, between machines over TCP (tcp.py)
"""
