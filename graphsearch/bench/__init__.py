"""Every benchmark: speed, batches, and searches that outgrow their memory.

Only `cli` and `tools` import it."""
