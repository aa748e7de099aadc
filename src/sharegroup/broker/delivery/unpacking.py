"""Looking into compressed batches without holding up the loop.

Most unpack to little, and that is done at once. What is more goes to a thread, where the codecs and
the compiled walk let the loop run. One goes at a time, so that a hundred bombs take the memory of
one; and whatever comes for a partition meanwhile waits behind it, for a producer's batches must
stay in their order.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Final

from sharegroup.model.errors import CorruptMessage
from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.limits import UNPACKED_ON_LOOP_BYTES_MAX
from sharegroup.storage.validation import walk_batches
from sharegroup.wire.batch import COMPRESSION_MASK, HEADER_BYTES, parse_headers

_LENGTH_AT: Final = 8
_LENGTH_END: Final = 12
_ATTRIBUTES_AT: Final = 22


class Unpacking:
    """See the module."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting: Counter[TopicIdPartition] = Counter()

    def passes(self, batches: bytes) -> bool:
        """Whether these need not go through :meth:`walked`: nothing is compressed, nobody waits."""
        return not self._waiting and not _is_compressed(batches)

    async def walked(self, partition: TopicIdPartition, batches: bytes) -> bytes:
        """``batches``, looked into where they are compressed; uncompressed ones are left to whoever
        appends them. Does not let go of the loop unless it must. What is returned must be appended
        at once.

        Raises:
            CorruptMessage, InvalidRecord, UnsupportedCompressionType: a batch is not what it says.
        """
        if partition not in self._waiting:
            with suppress(CorruptMessage):  # or it is large, which the thread will find out
                return walk_batches(batches, UNPACKED_ON_LOOP_BYTES_MAX)
        self._waiting[partition] += 1
        try:
            async with self._turn:
                loop = asyncio.get_running_loop()
                return await loop.run_in_executor(None, walk_batches, batches)
        finally:
            self._waiting[partition] -= 1
            if not self._waiting[partition]:
                del self._waiting[partition]


def _is_compressed(batches: bytes) -> bool:
    """One of them is; nearly always there is one only."""
    if len(batches) < HEADER_BYTES:
        return False
    if _LENGTH_END + int.from_bytes(batches[_LENGTH_AT:_LENGTH_END], "big") == len(batches):
        return bool(batches[_ATTRIBUTES_AT] & COMPRESSION_MASK)
    return any(header.attributes & COMPRESSION_MASK for header in parse_headers(batches))
