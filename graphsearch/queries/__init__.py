"""Questions to a stored graph beyond one node: lines, trees, ways in, games, SQL. Reading only."""
