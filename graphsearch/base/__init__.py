"""Shared basics: errors and their messages, limits on input, deadlines, and answers as JSON."""
