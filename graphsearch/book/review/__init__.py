"""Reviews of games: every position is searched, every move judged; and searches of sets of positions."""
