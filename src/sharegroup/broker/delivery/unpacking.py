"""Unpacking, checking and compressing batches without blocking the event loop.

Most batches are small when unpacked, and are checked at once. Larger batches go to a thread, where
the codecs and the compiled walk let the loop run. Large batches whose keys are hashed for order per
key go there too. The thread takes one request at a time, so that a hundred decompression bombs take
the memory of one. Later Produce requests of the same connection wait until the batches are appended
(:attr:`Unpacking.producing`), because a producer's batches must stay in order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from sharegroup.keyed_locks import KeyedLocks
from sharegroup.model.errors import CorruptMessage
from sharegroup.model.limits import DECOMPRESSED_BATCH_BYTES_MAX, UNPACKED_ON_LOOP_BYTES_MAX
from sharegroup.model.log import MessageIds, OwnedLog, Recompression
from sharegroup.records.walked_batches import (
    WalkedBatches,
    prepare,
    recompressed,
    walk_batches,
)
from sharegroup.wire.batch import COMPRESSION_MASK, HEADER_BYTES, parse_headers

T = TypeVar("T")

RECOMPRESSED_ON_LOOP_BYTES_MAX: Final = 16 * 1024
"""Up to this many bytes are compressed on the event loop's thread: less than a millisecond."""
_LENGTH_AT: Final = 8
_LENGTH_END: Final = 12
_ATTRIBUTES_AT: Final = 22


class Unpacking:
    """See the module."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self.producing = KeyedLocks()
        """By connection: held by a Produce request that may wait for the thread, until all of its
        batches are appended."""

    def passes(self, batches: bytes, how: Recompression | None = None) -> bool:
        """Whether ``batches`` may skip :meth:`walked`: no batch is compressed or has to be."""
        return how is None and not is_compressed(batches)

    async def walked(
        self,
        batches: bytes,
        how: Recompression | None = None,
        record_bytes_max: int | None = None,
        ids: MessageIds | None = None,
    ) -> bytes:
        """Check compressed batches, and return all batches, compressed as ``how`` says; the append
        checks the rest. With ``ids`` their message ids are found too.

        Yields to the loop only if it must. The caller must append the result at once.

        Raises:
            CorruptMessage, InvalidRecord, UnsupportedCompressionType: a batch is not what it says.
        """
        walk = walk_batches if how is None else partial(_recompressed, how)
        secret = None if ids is None else ids.secret
        work = partial(walk, record_bytes_max=record_bytes_max, id_secret=secret)
        small = how is None or len(batches) <= RECOMPRESSED_ON_LOOP_BYTES_MAX
        if small:
            with suppress(CorruptMessage):  # or too large for the loop: the thread finds out which
                return work(batches, UNPACKED_ON_LOOP_BYTES_MAX)
        return await self.in_thread(partial(work, batches))

    async def without_repeats(self, batches: bytes, ids: MessageIds, log: OwnedLog) -> None:
        """Take the repeated records out of large compressed batches, so that the append need not:
        that unpacks and compresses them. The caller must append at once.

        Raises:
            NotEnoughReplicas: as ``MessageIds.repeated``.
        """
        if not isinstance(batches, WalkedBatches):
            return
        if batches.unpacked_bytes <= RECOMPRESSED_ON_LOOP_BYTES_MAX or not is_compressed(batches):
            return
        while any(gone := ids.repeated(batches, log.log_end_offset)):
            if batches.prepared is not None and batches.prepared.gone == gone:
                return  # nothing has changed meanwhile
            await self.in_thread(partial(prepare, batches, gone))

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run ``work`` in the thread when its turn has come."""
        async with self._turn:
            return await asyncio.get_running_loop().run_in_executor(None, work)


def _recompressed(
    how: Recompression,
    batches: bytes,
    bytes_max: int = DECOMPRESSED_BATCH_BYTES_MAX,
    record_bytes_max: int | None = None,
    id_secret: bytes | None = None,
) -> bytes:
    return recompressed(batches, how, bytes_max, record_bytes_max, id_secret)


def is_compressed(batches: bytes) -> bool:
    """Whether any batch is compressed; nearly always there is only one."""
    if len(batches) < HEADER_BYTES:
        return False
    if _LENGTH_END + int.from_bytes(batches[_LENGTH_AT:_LENGTH_END], "big") == len(batches):
        return bool(batches[_ATTRIBUTES_AT] & COMPRESSION_MASK)
    return any(header.attributes & COMPRESSION_MASK for header in parse_headers(batches))
