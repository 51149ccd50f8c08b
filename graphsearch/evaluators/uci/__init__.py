"""`uci:PROGRAM`: any UCI engine as an evaluator."""
