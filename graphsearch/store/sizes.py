"""How much of a file is written, merged and read at once."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The portions in which a store works; the records of a file do not depend on them.

    Attributes:
      chunk_blocks: share dictionaries and a bloom filter; 2048 blocks are 65,536 records. No chunk has more.
      fan_out: runs of one tier that make a run of the next.
      unread_fan_out: the same while their writer reads none of them; a search of an hour makes fewer.
      waste_from: records; a smaller file is not merged only because it holds superseded versions.
      step_blocks: moved by one step of a merge, which fills one chunk: 50 MB and a tenth of a second.
      scan_blocks: read at once by a scan, of all runs together: some 16,000 records.
      piece_blocks: decoded at once by a look-up: some 3 MB of records.
      vacuum_pages: given back in one transaction: 16 MiB, which some of the file's last pages fill.
    """

    chunk_blocks: int = 2048
    fan_out: int = 8
    unread_fan_out: int = 128
    waste_from: int = 16_384
    step_blocks: int = 1024
    scan_blocks: int = 512
    piece_blocks: int = 512
    vacuum_pages: int = 1024


SIZES = Sizes()
