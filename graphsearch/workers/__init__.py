"""Worker processes: a launcher starts them, a supervisor watches and replaces them.

launcher.py      starts workers: child.py on this machine, ray_workers.py on a Ray cluster
supervisor.py    assigns work, kills hung workers, replaces lost ones; batches.py: one batch at a time
messages.py      messages of all workers; they travel by pipes, between machines over TCP (tcp_pipes.py)
"""
