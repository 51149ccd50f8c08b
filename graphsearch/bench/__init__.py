"""Every benchmark: speed, batches, and searches that outgrow their memory."""
