"""Repertoires: positions with own moves and the replies that they meet, surveyed, written and drilled."""
