"""Reviews of games: every position is searched, every move judged, results go to PGN."""
