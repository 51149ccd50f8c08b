"""Repertoires: surveys and writes positions with own moves and the replies to them."""
