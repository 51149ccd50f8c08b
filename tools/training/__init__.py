"""Making and judging the networks of the built-in evaluator: `python -m tools.training`."""
