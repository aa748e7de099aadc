"""The settings of one topic's logs, resolved from topic and broker configs by the caller."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NO_LIMIT: Final = -1
"""``retention.ms`` and ``retention.bytes``: keep for ever."""

SEGMENT_BYTES_MAX: Final = 2**31 - 1
"""Index entries hold positions as 32-bit numbers; Kafka's bound of ``segment.bytes``."""


class FlushPolicy(StrEnum):
    """When readers may see a record, and when ``acks=all`` is answered."""

    DURABLE = "durable"
    """After the fsync that makes it durable."""
    SYSTEM = "system"
    """At once; the operating system decides when to write it to disk, as in Apache Kafka."""


class TimestampType(StrEnum):
    """Kafka's ``message.timestamp.type``."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Names and defaults are Kafka's topic configs; ``retention_*`` of -1 keep for ever (also for
    compacted topics).
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    retention_ms: int = 604_800_000
    retention_bytes: int = NO_LIMIT
    max_message_bytes: int = 1_048_588
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 3_600_000
    index_interval_bytes: int = 4096
    producer_expiration_ms: int = 86_400_000
    names_groups: bool = False
    """The topic names share groups in ``share.retention.groups``."""
    cap_ms: int = NO_LIMIT
    """``share.retention.cap.ms``: what the named groups need is kept beyond ``retention_ms`` and
    ``retention_bytes``, but not beyond this age and :attr:`cap_bytes`."""
    cap_bytes: int = NO_LIMIT
    drops_finished: bool = False
    """What all named groups have finished goes, whatever its age."""
    flush_policy: FlushPolicy = FlushPolicy.DURABLE
    compacted: bool = False
    """``cleanup.policy`` contains compact: every record needs a key."""

    cleaned: bool = False
    """The cleaner works on these logs; False for internal topics, which are rewritten instead."""
    min_cleanable_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    delete_retention_ms: int = 86_400_000

    deduplication_window_ms: int = 0
    """A record whose message id was there within this time is not appended; 0: all are."""

    record_bytes_max: int = 2**31 - 9
    """``max.decompressed.message.bytes``: the largest record of a compressed batch, unpacked."""

    codec: int | None = None
    """The codec that batches are stored with, as in their attributes; None: the producer's."""
    codec_level: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.segment_bytes <= SEGMENT_BYTES_MAX:
            raise ValueError(f"segment_bytes is 1 to {SEGMENT_BYTES_MAX}, not {self.segment_bytes}")
