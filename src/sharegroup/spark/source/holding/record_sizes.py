"""Observed sizes of records: they turn a bound in bytes into a number of records to acquire."""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

from sharegroup.model.errors import CorruptMessage
from sharegroup.wire.batch import HEADER_BYTES, parse_header

SAMPLE_SECONDS: Final = 60.0
"""How long an observed size is valid."""
BATCHES_SAMPLED: Final = 100


class RecordSizes:
    """Average bytes per record of each topic, as the log holds them (compressed)."""

    def __init__(self) -> None:
        self._averages: dict[UUID, float] = {}
        self._seen_at = float("-inf")

    @property
    def is_known(self) -> bool:
        """Whether records were observed lately."""
        return asyncio.get_running_loop().time() - self._seen_at < SAMPLE_SECONDS

    def saw(self, topic_id: UUID, records: bytes) -> None:
        """Observe the record batches of a fetch."""
        size = count = position = 0
        for _ in range(BATCHES_SAMPLED):
            if len(records) - position < HEADER_BYTES:
                break
            try:
                header = parse_header(records, position)
            except CorruptMessage:
                break
            size += header.length
            count += header.record_count
            position += header.length
        if count:
            self._averages[topic_id] = size / count
            self._seen_at = asyncio.get_running_loop().time()

    def records_in(self, size: int) -> int:
        """How many records have about ``size`` bytes, by the topic with the largest records; at
        least one."""
        largest = max(self._averages.values(), default=1.0)
        return max(1, int(size / largest))
