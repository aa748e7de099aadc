"""A producer's batches with the broker's offsets, epoch and time in their headers, without copying
the records.
"""

from __future__ import annotations

from collections.abc import Sequence

from sharegroup.wire.batch import (
    HEADER_BYTES,
    STAMPED_BYTES,
    BatchHeader,
    append_time_header,
    remade_header,
    stamped_prefix,
    states_max_timestamp,
)


def stamped(
    batches: bytes,
    headers: Sequence[BatchHeader],
    base_offset: int,
    leader_epoch: int,
    append_time_ms: int,
) -> list[bytes | memoryview]:
    """The buffers for one write. ``append_time_ms`` is -1 under CreateTime. Under CreateTime the
    CRC stays as it is, unless the largest timestamp in the producer's header differs from the one
    in ``headers``: then it is corrected (Kafka class LogValidator).
    """
    view = memoryview(batches)
    buffers: list[bytes | memoryview] = []
    start = 0
    for header in headers:
        end = start + header.length
        batch = view[start:end]
        if append_time_ms >= 0:
            buffers.append(
                append_time_header(batch, header, base_offset, leader_epoch, append_time_ms)
            )
            buffers.append(batch[HEADER_BYTES:])
        elif states_max_timestamp(header, batch):
            buffers.append(stamped_prefix(header, base_offset, leader_epoch))
            buffers.append(batch[STAMPED_BYTES:])
        else:
            buffers.append(remade_header(batch, header, base_offset, leader_epoch))
            buffers.append(batch[HEADER_BYTES:])
        base_offset += header.last_offset_delta + 1
        start = end
    return buffers
