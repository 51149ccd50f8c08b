"""Record batches in the form that the kernels of sweeps take."""

from __future__ import annotations

from ..record.node import RecordBatch
from ..store.codec.batch_kernel import Columns
from ..store.codec.bulk import owned


def columns_of(batch: RecordBatch) -> Columns:
    """Returns the batch for kernels, with flat words; columns that own their memory are not copied."""
    return Columns(
        **{
            name: owned(column, column.dtype).reshape(-1)
            for name in RecordBatch.__slots__
            for column in (getattr(batch, name),)
        }
    )
