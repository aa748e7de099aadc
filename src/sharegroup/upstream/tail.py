"""The end of a log of our state, for who does not own it: who does, and whether it is free."""

from __future__ import annotations

from typing import Final

from sharegroup.fleet.terms import Owner, Terms
from sharegroup.model import errors
from sharegroup.upstream.owned_batches import batches_in
from sharegroup.upstream.raw_log import EARLIEST, LATEST, RawLog

TAIL: Final = 100
"""Offsets at the end of the log that are read at first."""
READ_BYTES: Final = 1 << 20


class Tail:
    """The end of a log, as far as it was read.

    Attributes:
        released: the owner has said that it needs the log no more.
    """

    def __init__(self, log: RawLog) -> None:
        self._log = log
        self._offset: int | None = None
        self._terms = Terms()
        self.released = False

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
                    self.released = batch.released
        return self._offset > before

    @property
    def owner(self) -> Owner | None:
        """Who has the log, as far as it was read; None: nobody has had it."""
        return self._terms.owner
