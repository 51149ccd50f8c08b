"""Trains and judges the networks of the built-in evaluator: `python -m tools.training`."""
