"""Shared basics: errors and their messages, limits on input, the operating system, and answers as JSON."""
