"""Three ways to fill a wave with leaves: `classic`, `budget` and `flow`."""
