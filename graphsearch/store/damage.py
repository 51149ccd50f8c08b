"""What is passed over because it is damaged: said once each, on the log `graphsearch` (by default stderr)."""

from __future__ import annotations

import logging

from ..errors import CorruptRecordError

MAX_NOTES = 20  # said by one process; `store verify` lists all

_log = logging.getLogger("graphsearch")
_said: set[str] = set()


def passed_over(error: CorruptRecordError) -> None:
    """Says what is damaged and counts as not there."""
    line = str(error)
    if line in _said or len(_said) > MAX_NOTES:
        return
    _said.add(line)
    if len(_said) > MAX_NOTES:
        line = "and more; `graphsearch store verify` lists all"
    _log.warning("damaged, and left out: %s", line)
