"""Gaps between segments that another broker's cleaner has left (Kafka class Cleaner).

Our cleaner keeps the last batch of each segment, so offsets that are missing there are lost.
Kafka's cleaner does not: a segment that it has cleaned may end before the next one begins, or be
empty.

Such a gap is legal in a log with ``cleanup.policy`` compact, below the offset up to which another
broker has cleaned. Another broker has cleaned the log if ``cleaner-offset-checkpoint`` is ahead of
our own checkpoint of offsets that may be missing, which we write first. The first start closes each
gap with an empty batch, as a cleaner leaves it for the last offset of a producer. From then on a
gap is damage again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sharegroup.storage.segment import Segment
from sharegroup.storage.segment_walk import SegmentWalk
from sharegroup.wire.batch import HEADER_BYTES, encode_batch, parse_header, with_records

NO_TIMESTAMP: Final = -1

_INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
"""Kafka's topics that are compacted whatever the catalog says."""


def foreign_until(cleaned: int, sparse: int) -> int:
    """The offset below which another broker may have left gaps; 0 if none has cleaned the log.

    ``cleaned``, ``sparse``: the log's offset in Kafka's checkpoint of the cleaner, and in ours.
    """
    return cleaned if cleaned > sparse else 0


def is_compacted(topic: str, configs: Mapping[str, str], broker: Mapping[str, str]) -> bool:
    """Whether a topic is compacted, by the configs in the catalog."""
    default = broker.get("log.cleanup.policy", "")
    return topic in _INTERNAL or "compact" in configs.get("cleanup.policy", default)


def is_legal(next_offset: int, tail_bytes: int, end_offset: int, gaps_below: int) -> bool:
    """Whether a segment may end at ``next_offset`` with the next one beginning at ``end_offset``.

    ``tail_bytes`` after its last batch are no more than what a crash has left of an empty batch.
    """
    return next_offset < end_offset <= gaps_below and tail_bytes <= HEADER_BYTES


def close(segment: Segment, walk: SegmentWalk) -> None:
    """Append an empty batch with the missing offsets. The caller must sync the segment's file.

    Raises:
        OSError: the disk refused it.
    """
    if walk.tail_bytes:
        segment.truncate(walk.valid_bytes)
    first, position = walk.next_offset, segment.size
    header = parse_header(encode_batch([(None, None)], timestamp_ms=0))._replace(
        base_offset=first,
        last_offset_delta=segment.next_offset - 1 - first,
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=max(segment.indexes.max_timestamp, 0),
        record_count=0,
    )
    batch = with_records(header, b"")
    segment.file.append(batch)
    segment.size += len(batch)
    segment.note(header, first, position, header.max_timestamp)
