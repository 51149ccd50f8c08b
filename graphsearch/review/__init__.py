"""Reviews of games: every position searched, every move judged, and the report about it."""
