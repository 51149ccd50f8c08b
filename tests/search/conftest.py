"""What all tests here use."""

from __future__ import annotations

from ..support.tables import few_top_rows as few_top_rows
