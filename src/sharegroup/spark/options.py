"""The options of ``spark.readStream.format("kafka-share")``, checked as a whole when a query calls
``load()``.

Names follow Spark's own Kafka source where it has one. A wrong option fails with a sentence that
says what to write; none is ignored. Spark hands option names over in lower case, so names are
compared without case.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sharegroup.client.addresses import parse_addresses
from sharegroup.model.errors import ConfigError

SERVERS: Final = "kafka.bootstrap.servers"
GROUP: Final = "kafka.group.id"
INT_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOptions:
    """What a ``kafka-share`` stream was asked to do; times are in milliseconds."""

    bootstrap_servers: str
    group_id: str
    topics: tuple[str, ...]
    starting_offsets: str | None = None
    """``earliest`` or ``latest`` for a group that has no offsets yet; None leaves it to the group's
    own config."""
    max_offsets_per_trigger: int | None = None
    max_acquired_records: int = 5_000_000
    """No batch is larger, whatever the trigger: it bounds the driver's memory and the broker's
    locks."""
    record_locks_per_partition: int | None = None
    """How many records of a partition a batch may hold; a config of the group when it is new.
    Our broker takes any number (1,000,000 where none is given); Apache Kafka's
    ``share.partition.max.record.locks`` has bounds (2,000, up to 4,000 unless the broker says)."""
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    fail_on_data_loss: bool = True
    poll_timeout_ms: int = 500
    """How long ``latestOffset`` waits for records when there are none."""
    executor_poll_timeout_ms: int = 120_000
    """How long a task waits for its records while the broker gives none."""
    client_id: str = "sharegroup-spark"
    request_timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class _Option:
    name: str
    field: str
    parse: Callable[[str, str], object]


def parse_options(options: Mapping[str, str]) -> ShareOptions:
    """The options as values.

    Raises:
        ConfigError: one is missing, unknown, not available here, or has a value that cannot be.
    """
    values: dict[str, object] = {}
    for key, text in options.items():
        option = _OPTIONS.get(key.lower())
        if option is None:
            raise ConfigError(_refusal(key))
        if option.field in values and values[option.field] != option.parse(option.name, text):
            raise ConfigError(f"{option.name} is given twice, with different values")
        values[option.field] = option.parse(option.name, text)
    for field, (name, example) in _REQUIRED.items():
        if field not in values:
            raise ConfigError(f'{name} is missing: write .option("{name}", "{example}")')
    return ShareOptions(**values)  # type: ignore[arg-type]


def _refusal(key: str) -> str:
    reason = _REFUSED.get(key.lower())
    if reason is not None:
        return f"{key} is not available in kafka-share: {reason}"
    names = {option.name.lower(): option.name for option in _OPTIONS.values()}
    near = difflib.get_close_matches(key.lower(), names, n=1)
    hint = f"did you mean {names[near[0]]}?" if near else f"options are {', '.join(names.values())}"
    return f"{key} is not an option of kafka-share: {hint}"


def _servers(name: str, text: str) -> str:
    try:
        parse_addresses(text)
    except ConfigError:
        raise ConfigError(f"{name} is {text!r}: write host:port, or host:port,host:port") from None
    return text


def _text(name: str, text: str) -> str:
    if not text.strip():
        raise ConfigError(f"{name} is empty")
    return text.strip()


def _topics(name: str, text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not topics:
        raise ConfigError(f"{name} is empty: write a topic, or topics with commas between them")
    return topics


def _start(name: str, text: str) -> str:
    value = text.strip().lower()
    if value not in ("earliest", "latest"):
        raise ConfigError(
            f"{name} is {text!r}: write earliest or latest; the position is the group's own, so "
            "offsets cannot be given by partition (see kafka-share-groups --reset-offsets)"
        )
    return value


def _flag(name: str, text: str) -> bool:
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise ConfigError(f"{name} is {text!r}: write true or false")
    return value == "true"


def _count(minimum: int, maximum: int = 2**63 - 1) -> Callable[[str, str], int]:
    def parse(name: str, text: str) -> int:
        digits = text.strip()
        if not (digits.isascii() and digits.isdigit()) or not minimum <= int(digits) <= maximum:
            bounds = (
                f"from {minimum} to {maximum}" if maximum <= INT_MAX else f"of {minimum} or more"
            )
            raise ConfigError(f"{name} is {text!r}: write a whole number {bounds}")
        return int(digits)

    return parse


_OPTIONS: Final = {
    option.name.lower(): option
    for option in (
        _Option(SERVERS, "bootstrap_servers", _servers),
        _Option(GROUP, "group_id", _text),
        _Option("kafka.share.group.id", "group_id", _text),
        _Option("subscribe", "topics", _topics),
        _Option("startingOffsets", "starting_offsets", _start),
        _Option("maxOffsetsPerTrigger", "max_offsets_per_trigger", _count(1)),
        _Option("maxAcquiredRecords", "max_acquired_records", _count(1)),
        _Option("recordLocksPerPartition", "record_locks_per_partition", _count(100, INT_MAX)),
        _Option("minPartitions", "min_partitions", _count(1, INT_MAX)),
        _Option("maxRecordsPerPartition", "max_records_per_partition", _count(1)),
        _Option("includeHeaders", "include_headers", _flag),
        _Option("failOnDataLoss", "fail_on_data_loss", _flag),
        _Option("pollTimeoutMs", "poll_timeout_ms", _count(0, 60_000)),
        _Option("kafkaConsumer.pollTimeoutMs", "executor_poll_timeout_ms", _count(1, INT_MAX)),
        _Option("kafka.client.id", "client_id", _text),
        _Option("kafka.request.timeout.ms", "request_timeout_ms", _count(1, INT_MAX)),
    )
}
_REQUIRED: Final = {
    "bootstrap_servers": (SERVERS, "localhost:9092"),
    "topics": ("subscribe", "my-topic"),
    "group_id": (GROUP, "my-share-group"),
}

_BY_GROUP = "the share group's own position decides; startingOffsets says where a new group begins"
_STREAM = (
    "a share group has no end; to stop after what is there now, use .trigger(availableNow=True)"
)
_TRIGGER = "waiting with records in hand uses up their locks; use .trigger(processingTime=…)"
_FIXED = "keys and values are binary; decode them with DataFrame functions"
_REFUSED: Final = {
    name.lower(): reason
    for name, reason in {
        "assign": "the group assigns partitions; name the topics in subscribe",
        "subscribePattern": "patterns are not there yet; name the topics in subscribe",
        "groupIdPrefix": "the group is the queue; name it in kafka.group.id",
        "startingOffsetsByTimestamp": _BY_GROUP,
        "startingTimestamp": _BY_GROUP,
        "startingOffsetsByTimestampStrategy": _BY_GROUP,
        "endingOffsets": _STREAM,
        "endingTimestamp": _STREAM,
        "endingOffsetsByTimestamp": _STREAM,
        "minOffsetsPerTrigger": _TRIGGER,
        "maxTriggerDelay": _TRIGGER,
        "kafka.auto.offset.reset": "use startingOffsets",
        "kafka.enable.auto.commit": "a finished batch is acknowledged by the source",
        "kafka.interceptor.classes": "there are no interceptors",
        "kafka.key.deserializer": _FIXED,
        "kafka.value.deserializer": _FIXED,
        "kafka.isolation.level": "set the group's config share.isolation.level",
        "kafka.max.poll.records": "use maxOffsetsPerTrigger",
        "kafka.security.protocol": "only PLAINTEXT connections are there yet; leave it out",
        "path": 'name the topics in .option("subscribe", …) and call .load() without a path',
    }.items()
}
