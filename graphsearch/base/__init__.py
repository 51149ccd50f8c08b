"""What every room stands on: errors and faults, the limits of what comes in, answers as JSON."""
