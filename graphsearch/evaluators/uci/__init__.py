"""`uci:PROGRAM`: any engine that speaks UCI, as an evaluator.

    evaluator.py -> pool.py (processes) -> ask.py (V and P of one position) -> engine.py (one process)
    program.py: which file;  settings.py: the options;  scores.py: from `info` lines to WDL

`chess.engine` and asyncio are imported when an engine is started, not before.
"""

from .evaluator import UciEvaluator
from .settings import UciSettings

__all__ = ["UciEvaluator", "UciSettings"]
