"""What a person adds to a graph file: studies (games with variations), notes on positions, repertoires."""
