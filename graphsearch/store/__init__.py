"""The graph file: one SQLite database of sorted runs of node records, and plain tables beside them.

Importing this needs no Numba; what writes or reads in bulk imports the kernels on first use.
"""

from __future__ import annotations

from .file import LOG_BYTES
from .info import StoreInfo, info
from .store import Store
from .verify import VerifyReport, verify

__all__ = ["LOG_BYTES", "Store", "StoreInfo", "VerifyReport", "info", "verify"]
