"""Broker settings of logs: the defaults of topics that have no setting of their own."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.configs.define import (
    ARRAY_BYTES_MAX,
    choice,
    flag,
    gzip_level,
    integer,
    long,
    names,
)
from sharegroup.model.config import LONG_MAX, ConfigDef, ConfigType

LOG_CONFIGS: Final = (
    long(
        "log.retention.ms",
        None,
        -1,
        "Records older than this are deleted, segment by segment; -1 keeps them. "
        "log.retention.minutes when not set.",
        dynamic=True,
    ),
    integer(
        "log.retention.minutes",
        None,
        None,
        "As log.retention.ms; log.retention.hours when not set.",
    ),
    integer("log.retention.hours", 168, None, "As log.retention.ms, in hours."),
    long(
        "log.retention.bytes",
        -1,
        -1,
        "The oldest segments of a partition are deleted beyond this size; -1 keeps them.",
        dynamic=True,
    ),
    long("log.retention.check.interval.ms", 300_000, 1, "How often retention is enforced."),
    names(
        "log.cleanup.policy",
        ("delete",),
        "delete: retention applies. compact: the last record of each key stays.",
        choices=("compact", "delete"),
        dynamic=True,
    ),
    integer(
        "log.segment.bytes",
        1_073_741_824,
        1_048_576,
        "A segment file is closed at this size.",
        dynamic=True,
    ),
    long(
        "log.roll.ms",
        None,
        1,
        "A segment file is closed at this age; log.roll.hours when not set.",
        dynamic=True,
    ),
    integer("log.roll.hours", 168, 1, "As log.roll.ms, in hours."),
    integer(
        "log.index.interval.bytes",
        4096,
        0,
        "Bytes of log between two entries of an index.",
        dynamic=True,
    ),
    choice(
        "log.message.timestamp.type",
        "CreateTime",
        ("CreateTime", "LogAppendTime"),
        "Whose time a record has: the producer's or the broker's.",
        dynamic=True,
    ),
    long(
        "log.message.timestamp.before.max.ms",
        LONG_MAX,
        0,
        "A record whose timestamp lies further in the past is refused.",
        dynamic=True,
    ),
    long(
        "log.message.timestamp.after.max.ms",
        3_600_000,
        0,
        "A record whose timestamp lies further in the future is refused.",
        dynamic=True,
    ),
    flag("log.cleaner.enable", True, "Whether logs with cleanup.policy compact are cleaned."),
    long(
        "log.cleaner.backoff.ms",
        15_000,
        0,
        "How long the log cleaner waits when there is nothing to clean.",
        dynamic=True,
    ),
    long(
        "log.cleaner.dedupe.buffer.size",
        134_217_728,
        1_048_576,
        "Memory for the keys of the log that is being cleaned, in bytes.",
        dynamic=True,
    ),
    long(
        "log.cleaner.delete.retention.ms",
        86_400_000,
        0,
        "How long a record without a value, which deletes its key, stays in a compacted topic "
        "after the cleaner met it.",
        dynamic=True,
    ),
    long(
        "log.cleaner.max.compaction.lag.ms",
        LONG_MAX,
        1,
        "A record of a compacted topic is cleaned when it is this old, whatever the ratio.",
        dynamic=True,
    ),
    ConfigDef(
        name="log.cleaner.min.cleanable.ratio",
        type=ConfigType.DOUBLE,
        default=0.5,
        minimum=0,
        maximum=1,
        doc="A compacted log is cleaned when more than this part of its bytes is not clean.",
        dynamic=True,
    ),
    long(
        "log.cleaner.min.compaction.lag.ms",
        0,
        0,
        "A record of a compacted topic stays at least this long.",
        dynamic=True,
    ),
    choice(
        "compression.type",
        "producer",
        ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "How batches are stored; producer: as they came.",
        dynamic=True,
    ),
    ConfigDef(
        name="compression.gzip.level",
        type=ConfigType.INT,
        default=-1,
        check=gzip_level,
        doc="The level of gzip where batches are compressed here; -1 is gzip's own default.",
        dynamic=True,
    ),
    integer(
        "compression.lz4.level",
        9,
        1,
        "The level of lz4 where batches are compressed here; 9 is the fast algorithm.",
        maximum=17,
        dynamic=True,
    ),
    integer(
        "compression.zstd.level",
        3,
        -131_072,
        "The level of zstd where batches are compressed here.",
        maximum=22,
        dynamic=True,
    ),
    integer(
        "max.decompressed.message.bytes",
        ARRAY_BYTES_MAX,
        1,
        "The largest record in a compressed batch, unpacked, in bytes.",
        maximum=ARRAY_BYTES_MAX,
        dynamic=True,
    ),
    integer(
        "max.incremental.fetch.session.cache.slots",
        1000,
        0,
        "How many incremental fetch sessions are kept.",
    ),
    long(
        "max.bytes.key.range.cache",
        209_715_200,
        0,
        "The memory for what is known of stored batches for fetches with key ranges: the hash of "
        "each key, 16 bytes a record, and unpacked records where reserve.message.value.range.fetch "
        "is true. What was used longest ago goes first. Not a Kafka setting.",
        dynamic=True,
    ),
    long(
        "max.bytes.fetcher.filtering",
        104_857_600,
        1,
        "How many bytes of the log are looked at for one fetch with key ranges. Its answer then "
        "says how far it came. Not a Kafka setting.",
        dynamic=True,
    ),
)
