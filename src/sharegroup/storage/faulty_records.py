"""Names the records for which a batch is refused (Kafka class LogValidator, its record errors): a
producer then blames these records, and not the whole batch.

Finding them is a Python loop over the records, so it is done only for a small batch that has been
refused. A large batch is refused without naming its records.
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
"""Records of the longest batch that is searched: a few milliseconds of the event loop."""

E = TypeVar("E", bound=KafkaError)


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """The parts of a record that a check looks at."""

    index: int
    timestamp_ms: int
    has_key: bool


def naming(
    error: E, header: BatchHeader, batch: Buffer, fault: Callable[[RefusedRecord], str | None]
) -> E:
    """``error`` with the records of the refused batch for which ``fault`` gives a reason."""
    if header.record_count > RECORDS_MAX or len(batch) > UNPACKED_ON_LOOP_BYTES_MAX:
        return error
    try:
        records = plain_records(header, batch, UNPACKED_ON_LOOP_BYTES_MAX)
    except CorruptMessage:  # it unpacks to more bytes than the loop may look at
        return error
    plain = header._replace(attributes=header.attributes & ~COMPRESSION_MASK)
    found = []
    for index, (_, timestamp_ms, key, _) in enumerate(decode_batch(with_records(plain, records))):
        why = fault(RefusedRecord(index, timestamp_ms, key is not None))
        if why is not None:
            found.append((index, why))
    error.records = found
    return error
