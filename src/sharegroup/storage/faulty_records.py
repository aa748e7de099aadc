"""Names the records for which a batch is refused (Kafka class LogValidator, its record errors): a
producer then blames these, and not the whole batch.

This is a Python loop over the records, so it is only done for a batch that has been refused, and is
small. A large one is refused without names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from sharegroup.model.errors import CorruptMessage, KafkaError
from sharegroup.model.limits import UNPACKED_ON_LOOP_BYTES_MAX
from sharegroup.records.check import plain_records
from sharegroup.wire.batch import (
    COMPRESSION_MASK,
    BatchHeader,
    Buffer,
    decode_batch,
    with_records,
)

RECORDS_MAX: Final = 2_000
"""A few milliseconds of the event loop."""

E = TypeVar("E", bound=KafkaError)


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """What a check looks at."""

    index: int
    timestamp_ms: int
    has_key: bool


def naming(
    error: E, header: BatchHeader, batch: Buffer, fault: Callable[[RefusedRecord], str | None]
) -> E:
    """``error`` with the records of the refused batch that ``fault`` finds something about."""
    if header.record_count > RECORDS_MAX or len(batch) > UNPACKED_ON_LOOP_BYTES_MAX:
        return error
    try:
        records = plain_records(header, batch, UNPACKED_ON_LOOP_BYTES_MAX)
    except CorruptMessage:  # it unpacks to more
        return error
    plain = header._replace(attributes=header.attributes & ~COMPRESSION_MASK)
    found = []
    for index, (_, timestamp_ms, key, _) in enumerate(decode_batch(with_records(plain, records))):
        why = fault(RefusedRecord(index, timestamp_ms, key is not None))
        if why is not None:
            found.append((index, why))
    error.records = found
    return error
