"""Broker settings of logs: the defaults of topics that set none of their own."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.configs.define import choice, integer, long, names
from sharegroup.model.config import LONG_MAX

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
        "delete: retention applies. compact: nothing is deleted (and nothing is compacted yet).",
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
)
