"""`uci:PROGRAM`: any engine that speaks UCI, as an evaluator."""
