"""The graph file: one SQLite database of sorted runs of node records, and plain tables beside them.

Importing this needs no Numba; what writes or reads in bulk imports the kernels on first use.
"""

from __future__ import annotations

from .backup import BackupReport, backup
from .compact import CompactReport, compact
from .file import LOG_BYTES
from .forecast import Forecast, forecast
from .info import StoreInfo, info, unfinished_state
from .prune import PruneReport, prune
from .salvage import SalvageReport, salvage
from .store import Store
from .verify import VerifyReport, verify

__all__ = [
    "LOG_BYTES",
    "BackupReport",
    "CompactReport",
    "Forecast",
    "PruneReport",
    "SalvageReport",
    "Store",
    "StoreInfo",
    "VerifyReport",
    "backup",
    "compact",
    "forecast",
    "info",
    "prune",
    "salvage",
    "unfinished_state",
    "verify",
]
