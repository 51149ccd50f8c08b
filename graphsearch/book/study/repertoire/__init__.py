"""Repertoires: surveys, writes and drills positions with own moves and the replies to them."""
