"""The sizes of the portions in which a file is written, merged and read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of the portions in which a store works; the records of a file do not depend on them.

    Attributes:
      chunk_blocks: most blocks of a chunk, which share dictionaries and a bloom filter; 2048 blocks are
        65,536 records.
      fan_out: segments of one tier that are merged into one of the next.
      unread_fan_out: the same while their writer reads none of them; a search of an hour makes fewer.
      waste_from: records; a smaller file is not merged only because it holds superseded versions.
      step_blocks: blocks moved by one step of a merge, which fills one chunk: 50 MB and a tenth of a second.
      scan_blocks: blocks of all segments together that a scan reads at once: some 16,000 records.
      piece_blocks: blocks that a lookup decodes at once: some 3 MB of records.
      vacuum_pages: pages freed in one transaction: 16 MiB, which some of the file's last pages fill.
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
