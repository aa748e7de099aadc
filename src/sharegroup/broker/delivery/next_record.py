"""Whether a log has anything left to deliver from an offset on, and when that was written.

Offsets are not records: transaction markers, the empty batches that a cleaner keeps for their
producers, and holes that compaction has left have offsets too. If only such offsets follow a
group's window, the group has no lag, whether or not a member has passed over them yet.
"""

from __future__ import annotations

from typing import Final

from sharegroup.model.log import ReadableLog
from sharegroup.wire.batch import DELETE_HORIZON, LOG_APPEND_TIME, BatchHeader, parse_header
from sharegroup.wire.markers import is_control

LOOKED_AT_BYTES: Final = 65_536
"""How many bytes are looked at: some 800 markers. If more markers follow each other, the last one
is taken for a record: a lag that is too large for a while costs less than a walk through the log at
each look."""


class NextRecords:
    """Looks into logs, for one request or scrape: many groups stand at one place of a topic, and it
    is read once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[ReadableLog, int], BatchHeader | None] = {}

    async def after(self, log: ReadableLog, offset: int) -> BatchHeader | None:
        """The header of the first batch with records of applications at or after ``offset``; None
        if there is no such batch up to the high watermark.

        Raises:
            KafkaError: the log cannot be read there.
        """
        place = log, offset
        if place not in self._seen:
            self._seen[place] = await _next_record(log, offset)
        return self._seen[place]

    async def time(self, log: ReadableLog, offset: int) -> int | None:
        """When the record at ``offset``, or the first after it, was written, in ms since 1970;
        None: there is no such record.

        The time is in the header of its batch. If the offset begins the batch, the time is the
        batch's first timestamp, else its largest. The largest timestamp is exact for batches with
        log append time, whose first timestamp is the producer's. For other batches it is too young
        by at most the time span of the batch. A cleaned batch has only the largest: in place of the
        first timestamp it keeps its delete horizon.

        Raises:
            KafkaError: the log cannot be read there.
        """
        header = await self.after(log, offset)
        if header is None:
            return None
        stated = not header.attributes & (LOG_APPEND_TIME | DELETE_HORIZON)
        first = stated and header.base_offset >= offset
        return header.base_timestamp if first else header.max_timestamp


async def _next_record(log: ReadableLog, offset: int) -> BatchHeader | None:
    now = await log.offsets()
    offset, end = max(offset, now.start), now.high_watermark
    if offset >= end:
        return None
    data = (await log.read(offset, LOOKED_AT_BYTES, end_offset=end)).data
    header, position = None, 0
    while position < len(data):  # almost always only one round
        header = parse_header(data, position)
        if header.record_count and not is_control(header):
            return header
        position += header.length
    return header if header is not None and header.last_offset + 1 < end else None
