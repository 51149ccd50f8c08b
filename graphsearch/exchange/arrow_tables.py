"""Writes NumPy columns to Parquet files with pyarrow, in row groups."""

from __future__ import annotations

import importlib
import json
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..base.errors import MissingPackageError
from ..base.version import __version__
from .output import synced

INSTALL = "pip install '.[parquet]' in the folder of graphsearch"
TEXT = "text"  # the type of a column that is a dictionary of texts

Mask = NDArray[np.bool_]


def needed_arrow() -> Any:
    """Returns the module pyarrow, with its Parquet part imported.

    Raises:
      MissingPackageError: if it is not installed.
    """
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise MissingPackageError(f"Parquet needs the package pyarrow ({error}): {INSTALL}") from None


@dataclass(frozen=True, slots=True)
class Values:
    """Rows of one column, null where not `valid`; with `texts`, the values are indices into them."""

    values: NDArray[Any]
    valid: Mask | None = None
    texts: list[str] | None = None


Columns = dict[str, Values]


def chosen_rows(columns: Columns, rows: Mask) -> Columns:
    """Returns some of the rows."""
    if rows.all():
        return columns
    return {
        name: replace(
            column, values=column.values[rows], valid=None if column.valid is None else column.valid[rows]
        )
        for name, column in columns.items()
    }


class Table:
    """One Parquet file; buffers rows until they fill a row group."""

    def __init__(self, arrow: Any, path: Path, columns: dict[str, str], group: int) -> None:
        self._arrow = arrow
        self._path = path
        self._group = group
        self._types = {name: self._type(kind) for name, kind in columns.items()}
        self._waiting: list[Columns] = []
        self._rows = 0
        self._open = ExitStack()

    def _type(self, kind: str) -> Any:
        text = self._arrow.string()
        return (
            self._arrow.dictionary(self._arrow.int32(), text)
            if kind == TEXT
            else getattr(self._arrow, kind)()
        )

    def __enter__(self) -> Table:
        about = json.dumps({"program": "graphsearch", "version": __version__})
        schema = self._arrow.schema(self._types.items(), metadata={"graphsearch": about})
        with ExitStack() as stack:
            file = stack.enter_context(synced(self._path))
            parquet = self._arrow.parquet.ParquetWriter(file, schema, compression="zstd")
            self._writer = stack.enter_context(parquet)
            self._open = stack.pop_all()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self._flush()
        self._open.__exit__(kind, error, trace)

    def add(self, columns: Columns) -> None:
        """Adds rows; writes a row group when enough are buffered."""
        self._waiting.append(columns)
        self._rows += len(next(iter(columns.values())).values)
        if self._rows >= self._group:
            self._flush()

    def _flush(self) -> None:
        """Writes the buffered rows as one row group."""
        if self._rows:
            arrays = [self._array(name, [columns[name] for columns in self._waiting]) for name in self._types]
            self._writer.write_table(
                self._arrow.table(arrays, schema=self._writer.schema), row_group_size=self._rows
            )
        self._waiting, self._rows = [], 0

    def _array(self, name: str, parts: list[Values]) -> Any:
        """Returns one column of the buffered rows as an Arrow array."""
        arrow, kind = self._arrow, self._types[name]
        values = np.concatenate([part.values for part in parts])
        mask = None
        if parts[0].valid is not None:
            mask = ~np.concatenate([part.valid for part in parts if part.valid is not None])
        texts = parts[-1].texts
        if texts is None:
            plain = values if values.dtype == object else values.astype(kind.to_pandas_dtype(), copy=False)
            return arrow.array(plain, kind, mask=mask)
        used = np.zeros(len(texts), bool)
        used[values] = True
        numbers = (np.cumsum(used) - 1).astype(np.int32)[values]
        some = arrow.array([texts[i] for i in np.flatnonzero(used).tolist()], arrow.string())
        return arrow.DictionaryArray.from_arrays(arrow.array(numbers, mask=mask), some)
