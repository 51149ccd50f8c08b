"""Reviews of games: every position searched, every move judged, and what is written about it.

`web` and `cli` import it."""
