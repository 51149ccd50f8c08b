"""Clusters of Ray that tests start in their own process."""

from __future__ import annotations

import gc
import warnings
from typing import Any


def shut_down(cluster: Any) -> None:
    """Ends a cluster; Python would warn of processes that it kills and does not wait for."""
    cluster.shutdown()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
