"""Four ways to fill a wave with leaves: `classic`, `budget`, `exclude` and `flow`."""
