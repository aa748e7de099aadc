"""The options of ``spark.readStream.format("kafka-share")``, checked as a whole when a query calls
``load()``. An option that Spark's own Kafka source has too has the same name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sharegroup.client.security.settings import NO_SECURITY, Security
from sharegroup.model.errors import ConfigError
from sharegroup.spark.locations import folder
from sharegroup.spark.options import option_table
from sharegroup.spark.options.option_table import (
    INT_MAX,
    Option,
    OptionTable,
    count,
    duration,
    flag,
    instant,
    word,
)
from sharegroup.spark.options.refused import REFUSED_BY_STREAMS
from sharegroup.spark.options.security import split_security

SERVERS: Final = "kafka.bootstrap.servers"
GROUP: Final = "kafka.group.id"
IMPLICIT: Final = "implicit"
EXPLICIT: Final = "explicit"
CLAIM: Final = "claim"
KEY: Final = "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareOptions:
    """The options of a ``kafka-share`` stream; :data:`STREAM` says what each means. Times are in
    milliseconds; None means that the option was not given."""

    bootstrap_servers: str
    group_id: str
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    starting_offsets: str | None = None
    starting_timestamp_ms: int | None = None
    isolation_level: str | None = None
    max_offsets_per_trigger: int | None = None
    max_acquired_records: int = 5_000_000
    max_acquired_bytes: int = 1024**3
    prefetch: bool = True
    record_locks_per_partition: int | None = None
    lock_renew: bool = True
    on_lost_locks: str = "process"
    ack_mode: str = IMPLICIT
    ack_location: str | None = None
    claim_location: str | None = None
    default_ack: str | None = None
    split_by: str = "offset"
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    include_headers: bool = False
    include_timestamp_type: bool = False
    fail_on_data_loss: bool = True
    broker_outage_timeout_ms: int = 300_000
    poll_timeout_ms: int = 500
    executor_poll_timeout_ms: int | None = None
    client_id: str = "sharegroup-spark"
    request_timeout_ms: int = 30_000
    metadata_max_age_ms: int = 10_000
    security: Security = NO_SECURITY


def parse_options(options: Mapping[str, str]) -> ShareOptions:
    """The options as values.

    Raises:
        ConfigError: an option is missing, unknown, not available here, has an invalid value, or
            conflicts with another.
    """
    rest, security = split_security(options)
    values = STREAM.values(rest)
    if "ack_location" in values:
        values.setdefault("ack_mode", EXPLICIT)
    if "claim_location" in values:
        values.setdefault("ack_mode", CLAIM)
    parsed = ShareOptions(**values, security=security)
    _check_topics(parsed)
    _check_start(parsed)
    _check_acknowledging(parsed, values)
    _check_claiming(parsed)
    _check_splitting(parsed)
    return parsed


def _check_topics(options: ShareOptions) -> None:
    if not options.topics and options.topic_pattern is None:
        raise ConfigError(
            'subscribe is missing: write .option("subscribe", "my-topic"), or a pattern in '
            "subscribePattern"
        )
    if options.topics and options.topic_pattern is not None:
        raise ConfigError("subscribe and subscribePattern exclude each other: leave one out")


def _check_start(options: ShareOptions) -> None:
    if options.starting_offsets is not None and options.starting_timestamp_ms is not None:
        raise ConfigError("startingOffsets and startingTimestamp exclude each other: leave one out")


def _check_acknowledging(options: ShareOptions, given: Mapping[str, object]) -> None:
    if options.ack_mode == EXPLICIT and options.ack_location is None:
        raise ConfigError(
            "ackMode is explicit, and ackLocation is missing: write "
            '.option("ackLocation", "a folder") here and in the sink'
        )
    if options.ack_mode == EXPLICIT and options.on_lost_locks == "drop":
        raise ConfigError(
            "onLostLocks drop does not go with ackMode explicit, where the group may have a "
            "record's answer before Spark has its batch: write process or fail"
        )
    if options.ack_mode != EXPLICIT and options.ack_location is not None:
        raise ConfigError("ackLocation goes with ackMode explicit: leave one of the two out")
    if options.ack_mode != EXPLICIT and "default_ack" in given:
        raise ConfigError("defaultAck goes with ackMode explicit: add ackLocation, or leave it out")


def _check_claiming(options: ShareOptions) -> None:
    claims = options.ack_mode == CLAIM
    if claims and options.claim_location is None:
        raise ConfigError(
            'ackMode is claim, and claimLocation is missing: write .option("claimLocation", "a '
            'folder beside the checkpoint")'
        )
    if not claims and options.claim_location is not None:
        raise ConfigError("claimLocation goes with ackMode claim: leave one of the two out")
    if claims and options.on_lost_locks != "process":
        raise ConfigError(
            f"onLostLocks {options.on_lost_locks} does not go with ackMode claim, where the group "
            "has finished every record before Spark has it: leave it out"
        )


def _check_splitting(options: ShareOptions) -> None:
    if options.split_by == KEY and options.max_records_per_partition is not None:
        raise ConfigError(
            "maxRecordsPerPartition does not go with splitBy key, where all records of a key are "
            "in one task, however many they are: write minPartitions instead"
        )


def _start(name: str, text: str) -> str:
    value = text.strip().lower()
    if value not in ("earliest", "latest"):
        raise ConfigError(
            f"{name} is {text!r}: write earliest or latest; the position is the group's own, so "
            "offsets cannot be given by partition (see kafka-share-groups --reset-offsets)"
        )
    return value


STREAM: Final = OptionTable(
    (
        Option(
            SERVERS,
            "bootstrap_servers",
            option_table.servers,
            "The brokers: host:port, with commas between them.",
            spark=SERVERS,
            advised="localhost:9092",
        ),
        Option(
            GROUP,
            "group_id",
            option_table.group,
            "The share group: the queue. Queries and other consumers of one group share its "
            "records, each record goes to one of them.",
            spark=GROUP,
            advised="my-share-group",
        ),
        Option(
            "kafka.share.group.id",
            "group_id",
            option_table.group,
            f"Another name for `{GROUP}`.",
        ),
        Option(
            "subscribe",
            "topics",
            option_table.topics,
            "Topics, with commas between them. This or `subscribePattern`.",
            spark="subscribe",
        ),
        Option(
            "subscribePattern",
            "topic_pattern",
            option_table.pattern,
            "A regular expression (Python's) that the whole name of a topic must match; topics "
            "made later are read too, internal ones never.",
            spark="subscribePattern",
        ),
        Option(
            "startingOffsets",
            "starting_offsets",
            _start,
            "Where a *new* group begins: `earliest` or `latest`. A group that has a position "
            "keeps it. Without it the group's own config `share.auto.offset.reset` decides.",
            spark="startingOffsets",
        ),
        Option(
            "startingTimestamp",
            "starting_timestamp_ms",
            instant,
            "Where a *new* group begins: at records of this time (milliseconds since 1970) and "
            "later.",
            spark="startingTimestamp",
        ),
        Option(
            "isolationLevel",
            "isolation_level",
            word("read_uncommitted", "read_committed"),
            "Whether a *new* group gets records of transactions that are open or were aborted. "
            "Without it the group's own config `share.isolation.level` decides.",
            spark="kafka.isolation.level",
        ),
        Option(
            "maxOffsetsPerTrigger",
            "max_offsets_per_trigger",
            count(1),
            "No batch has more records, except with the trigger `once`: that is to read all in one "
            "batch, so Spark passes no limit on, and says so in its log.",
            spark="maxOffsetsPerTrigger",
        ),
        Option(
            "maxAcquiredRecords",
            "max_acquired_records",
            count(1),
            "Records held at once, the batch and the prefetched ones together, whatever the "
            "trigger: it bounds the driver's memory and the broker's locks.",
        ),
        Option(
            "maxAcquiredBytes",
            "max_acquired_bytes",
            count(1),
            "The same bound in bytes of records.",
        ),
        Option(
            "prefetch",
            "prefetch",
            flag,
            "Whether the next batch is acquired while the tasks of this one run.",
        ),
        Option(
            "recordLocksPerPartition",
            "record_locks_per_partition",
            count(100, INT_MAX),
            "How many records of one Kafka partition may be held; a config of the group, set when "
            "it is new. Our broker takes any number (`share.partition.wide.record.locks`; "
            "1,000,000 where none is given and the group has no limit of its own); Apache Kafka's "
            "`share.partition.max.record.locks` has bounds (2,000; up to 4,000 unless its broker "
            "says more).",
        ),
        Option(
            "lockRenew",
            "lock_renew",
            flag,
            "Whether locks are renewed for as long as a batch runs.",
        ),
        Option(
            "onLostLocks",
            "on_lost_locks",
            word("process", "drop", "fail"),
            "What becomes of records of a batch that runs again when the group has finished them "
            "meanwhile, because the query was away for longer than its locks: `process` them "
            "again, `drop` them from the batch, or `fail`.",
        ),
        Option(
            "ackMode",
            "ack_mode",
            word("implicit", "explicit", CLAIM),
            "`implicit`: a finished batch is accepted. `explicit`: each record gets the answer "
            "that the query's sink gives. `claim`: records are written down in `claimLocation` and "
            "accepted before they are processed, so that the group's locks do not bound a batch.",
        ),
        Option(
            "ackLocation",
            "ack_location",
            folder,
            "The folder through which sink and source pass the answers; the same in both, on a "
            "disk that the driver sees. Giving it means `ackMode` explicit.",
        ),
        Option(
            "claimLocation",
            "claim_location",
            folder,
            "The folder for the claims of this query, beside its checkpoint and as durable as it, "
            "on a disk that the driver sees. Giving it means `ackMode` claim.",
        ),
        Option(
            "defaultAck",
            "default_ack",
            word("accept", "release"),
            "With `ackMode` explicit: what becomes of a record of a finished batch without an "
            "answer. Without this option such records are released, and a batch in which no record "
            "has an answer fails the query.",
        ),
        Option(
            "splitBy",
            "split_by",
            word("offset", KEY),
            "What a task of a batch has: an equal number of records (`offset`), or the records of "
            "a part of one Kafka partition's keys (`key`), so that all records of a key in a batch "
            "are in one task, in the order of the log.",
        ),
        Option(
            "minPartitions",
            "min_partitions",
            count(1, INT_MAX),
            "At least this many tasks in a batch, if it has as many records.",
            spark="minPartitions",
        ),
        Option(
            "maxRecordsPerPartition",
            "max_records_per_partition",
            count(1),
            "No task gets more records; one Kafka partition may feed many tasks.",
            spark="maxRecordsPerPartition",
        ),
        Option(
            "includeHeaders",
            "include_headers",
            flag,
            "Adds the column `headers`.",
            spark="includeHeaders",
        ),
        Option(
            "includeTimestampType",
            "include_timestamp_type",
            flag,
            "Adds the column `timestampType`: 0 where the producer set the record's time, 1 where "
            "the broker did. Spark's own source always has it.",
        ),
        Option(
            "failOnDataLoss",
            "fail_on_data_loss",
            flag,
            "Whether the query fails when records of a batch are no longer in the log (retention, "
            "a deleted topic), or goes on without them.",
            spark="failOnDataLoss",
        ),
        Option(
            "brokerOutageTimeout",
            "broker_outage_timeout_ms",
            duration,
            "How long a running query waits for a broker that is away (ms, or 30s, 5m).",
        ),
        Option(
            "pollTimeoutMs",
            "poll_timeout_ms",
            count(0, 60_000),
            "How long an idle query waits at the broker before it asks again.",
        ),
        Option(
            "kafkaConsumer.pollTimeoutMs",
            "executor_poll_timeout_ms",
            count(1, INT_MAX),
            "How long a task waits for its records while the broker gives none. Without it as long "
            "as `brokerOutageTimeout`.",
            spark="kafkaConsumer.pollTimeoutMs",
        ),
        Option(
            "kafka.client.id",
            "client_id",
            option_table.text,
            "The name in the broker's log and metrics.",
            spark="kafka.client.id",
        ),
        Option(
            "kafka.request.timeout.ms",
            "request_timeout_ms",
            count(1, INT_MAX),
            "How long one request may take.",
            spark="kafka.request.timeout.ms",
        ),
        Option(
            "kafka.metadata.max.age.ms",
            "metadata_max_age_ms",
            count(100, INT_MAX),
            "How often the topics are looked at: for new ones that match `subscribePattern`, and "
            "for deleted ones.",
            spark="kafka.metadata.max.age.ms",
        ),
    ),
    REFUSED_BY_STREAMS,
)
