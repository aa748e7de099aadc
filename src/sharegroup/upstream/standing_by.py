"""Standing by: a broker that is started beside one that serves the cluster waits until that one is
gone.

The log of settings has a beat of its owner twice a second. The next owner may claim it when the
owner has released it, or has been silent for longer than its lease is: then it gives out nothing
any more, and no record is with two members. An owner that had the same data folder is gone: its
folder is locked by this process.

An owner is silent, too, while the cluster confirms nothing: a broker of it was lost, and no other
one leads yet, or replicas are waited for. So before a claim the log is written to, by a batch that
does not count. If that takes long, the owner has the time of a lease to be heard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from sharegroup.client.network.cluster import Cluster
from sharegroup.fleet.terms import Owner, Terms
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.lease import LEASE_S
from sharegroup.upstream.owned_batches import batches_in, encode_probe
from sharegroup.upstream.raw_log import EARLIEST, LATEST, RawLog

logger = logging.getLogger("sharegroup.broker")

SILENCE_S: Final = 1.25 * LEASE_S
"""So long must an owner be silent. Clocks of two machines do not run at one speed."""
PROBE_S: Final = 0.5
"""A cluster that takes longer to confirm a batch is slow for the owner as well."""
PROBE_MS: Final = 30_000
LOOK_MS: Final = 250
"""A look at the end of the log waits so long for something new."""
LANE: Final = "standby"
TAIL: Final = 100
"""Offsets at the end of the log that are read at first."""
READ_BYTES: Final = 1 << 20
FOLDER_BYTES: Final = 8
"""An incarnation begins with so many bytes that stay the same for a data folder."""


async def await_turn(
    cluster: Cluster, where: TopicPartition, incarnation: bytes, wall_ms: Callable[[], int]
) -> None:
    """Return when this process may claim the log. Claims decide all the same: should two return at
    a time, one of them has it.

    Args:
        incarnation: of this process.
        wall_ms: milliseconds since 1970.

    Raises:
        KafkaError: the cluster refuses, and will go on to.
    """
    loop = asyncio.get_running_loop()
    tail = _Tail(RawLog(cluster, where, LANE))
    heard_s = loop.time()
    told, new = False, True
    while True:
        try:
            new = await tail.look(LOOK_MS if told and not new else 0)
        except errors.KafkaError as error:
            if not error.retriable:
                raise
            # The owner may have been cut off as well: it has the time of a lease to come back.
            logger.debug("standing by: %s cannot be read: %s", where, error)
            await asyncio.sleep(LOOK_MS / 1000)
            heard_s = loop.time()
            continue
        if new:
            heard_s = loop.time()
            continue
        if tail.is_free_for(incarnation):
            return
        if loop.time() - heard_s > SILENCE_S:
            asked_s = loop.time()
            if await tail.is_last(encode_probe(wall_ms())) and loop.time() - asked_s < PROBE_S:
                return
            heard_s, new = loop.time(), True
            continue
        if not told:
            told = True
            logger.info(
                "standing by: another broker serves the cluster, and this one takes over when that "
                "one is gone"
            )


class _Tail:
    """The end of the log, as far as it was read."""

    def __init__(self, log: RawLog) -> None:
        self._log = log
        self._offset: int | None = None
        self._terms = Terms()
        self._released = False

    async def look(self, wait_ms: int) -> bool:
        """Read what is new, or wait for it for a moment. Returns whether there was something.

        Raises:
            KafkaError: the log cannot be read now.
        """
        if self._offset is None:
            begin = await self._log.offset(EARLIEST)
            self._offset = max(begin, await self._log.offset(LATEST) - TAIL)
        try:
            answer = await self._log.read(self._offset, READ_BYTES, wait_ms=wait_ms)
        except errors.OffsetOutOfRange:  # it was made shorter
            self._offset = None
            return True
        before = self._offset
        for batch in batches_in(bytes(answer.records or b"")):
            if batch.end_offset > self._offset:
                self._offset = batch.end_offset
                if batch.owner is not None and self._terms.counts(batch.owner):
                    self._released = batch.released
        return self._offset > before

    async def is_last(self, probe: bytes) -> bool:
        """Append a batch that does not count. Returns whether the owner has written nothing before
        it that was not seen; False also if the log cannot be written now."""
        end = self._offset
        try:
            return await self._log.append(probe, PROBE_MS) == end
        except errors.KafkaError as error:
            logger.debug("standing by: %s cannot be written: %s", self._log.where, error)
            return False

    def is_free_for(self, incarnation: bytes) -> bool:
        """Whether nobody serves who need be waited for."""
        last: Owner | None = self._terms.owner
        folder = incarnation[:FOLDER_BYTES]
        return last is None or self._released or last.incarnation[:FOLDER_BYTES] == folder
