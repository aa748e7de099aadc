"""A topic's settings: its own, else the broker's (Kafka classes TopicConfig, LogConfig,
ServerTopicConfigSynonyms).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sharegroup.broker.configs.broker import BROKER_CONFIGS, BrokerConfig
from sharegroup.broker.configs.define import (
    ARRAY_BYTES_MAX,
    choice,
    flag,
    gzip_level,
    idle,
    integer,
    long,
    names,
    share_groups,
    throttled_replicas,
)
from sharegroup.broker.configs.described import broker_synonyms
from sharegroup.model.config import (
    LONG_MAX,
    ConfigDef,
    ConfigEntry,
    ConfigSource,
    ConfigSynonym,
    ConfigTable,
    ConfigType,
    ConfigValue,
    format_value,
    nearest_name,
)
from sharegroup.model.errors import InvalidConfig
from sharegroup.model.limits import RETENTION_GROUPS_MAX
from sharegroup.model.log_settings import NO_LIMIT, FlushPolicy, LogSettings, TimestampType
from sharegroup.wire.compression import GZIP, LZ4, LZ4_FAST, SNAPPY, ZSTD

_NO_REPLICAS: Final = "there are no replicas"
_NO_TIERS: Final = "there is no tiered storage"
_FLUSH_POLICY: Final = "write flush.policy"
_DOWN_CONVERSION: Final = "message.downconversion.enable"

DEDUPLICATION_WINDOW: Final = "deduplication.window.ms"
DEAD_LETTERS_ENABLE: Final = "errors.deadletterqueue.group.enable"
MIN_LAG: Final = "min.compaction.lag.ms"
MAX_LAG: Final = "max.compaction.lag.ms"
RETENTION_GROUPS: Final = "share.retention.groups"
RETENTION_CAP_MS: Final = "share.retention.cap.ms"
RETENTION_CAP_BYTES: Final = "share.retention.cap.bytes"
RETENTION_DROP: Final = "share.retention.drop.finished"
_CODECS: Final = {"uncompressed": 0, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

TOPIC_CONFIGS: Final = ConfigTable(
    [
        long(
            "retention.ms",
            604_800_000,
            -1,
            "Records older than this are deleted, segment by segment; -1 keeps them.",
            synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ),
        long(
            "retention.bytes",
            -1,
            None,
            "The oldest segments of a partition are deleted beyond this size; -1 keeps them.",
            synonyms=("log.retention.bytes",),
        ),
        names(
            "cleanup.policy",
            ("delete",),
            "delete: retention applies. compact: the last record of each key stays, and every "
            "record needs a key. Both may be set.",
            choices=("compact", "delete"),
            synonyms=("log.cleanup.policy",),
        ),
        integer(
            "segment.bytes",
            1_073_741_824,
            1_048_576,
            "A segment file is closed at this size.",
            synonyms=("log.segment.bytes",),
        ),
        integer(
            "internal.segment.bytes",
            None,
            14,
            "As segment.bytes, without its lower bound; for tests (Kafka has it for the same "
            "reason).",
        ),
        long(
            "segment.ms",
            604_800_000,
            1,
            "A segment file is closed at this age.",
            synonyms=("log.roll.ms", "log.roll.hours"),
        ),
        integer(
            "max.message.bytes",
            1_048_588,
            0,
            "The largest record batch accepted, in bytes.",
            synonyms=("message.max.bytes",),
        ),
        choice(
            "message.timestamp.type",
            "CreateTime",
            ("CreateTime", "LogAppendTime"),
            "Whose time a record has: the producer's or the broker's.",
            synonyms=("log.message.timestamp.type",),
        ),
        long(
            "message.timestamp.before.max.ms",
            LONG_MAX,
            0,
            "A record whose timestamp lies further in the past is refused.",
            synonyms=("log.message.timestamp.before.max.ms",),
        ),
        long(
            "message.timestamp.after.max.ms",
            3_600_000,
            0,
            "A record whose timestamp lies further in the future is refused.",
            synonyms=("log.message.timestamp.after.max.ms",),
        ),
        integer(
            "index.interval.bytes",
            4096,
            0,
            "Bytes of log between two entries of an index.",
            synonyms=("log.index.interval.bytes",),
        ),
        choice(
            "flush.policy",
            "durable",
            ("durable", "system"),
            "When a record counts as written: durable, after an fsync; system, at once. Not a "
            "Kafka setting.",
            synonyms=("flush.policy",),
        ),
        flag(
            "accept.range.fetch",
            False,
            "Whether the topic may be fetched by key ranges, so that several consumers share a "
            "partition. Not a Kafka setting.",
        ),
        flag(
            "reserve.message.value.range.fetch",
            False,
            "What is kept in max.bytes.key.range.cache for the next fetch by key ranges: false, "
            "the hashes of keys; true, the unpacked records of compressed batches as well, until "
            "all of their hashes were fetched. Not a Kafka setting.",
        ),
        long(
            DEDUPLICATION_WINDOW,
            0,
            0,
            "A record is not appended if the partition had one with the same message id (header "
            "sharegroup.message.id) within this time; its producer is told the first one's "
            "offset. 0: every record is appended. Not a Kafka setting.",
        ),
        integer(
            "min.insync.replicas",
            1,
            1,
            "Copies that must exist before acks=all is answered; there is one copy, whatever "
            "it says.",
            synonyms=("min.insync.replicas",),
        ),
        choice(
            "compression.type",
            "producer",
            ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
            "How batches are stored; producer: as they came. A batch of another codec is "
            "compressed anew.",
            synonyms=("compression.type",),
        ),
        ConfigDef(
            name="compression.gzip.level",
            type=ConfigType.INT,
            default=-1,
            check=gzip_level,
            doc="The level of gzip where batches are compressed here; -1 is gzip's own default.",
            synonyms=("compression.gzip.level",),
        ),
        integer(
            "compression.lz4.level",
            LZ4_FAST,
            1,
            "The level of lz4 where batches are compressed here; 9, the default, is the fast "
            "algorithm, as in Kafka, and beyond 12 there is no further one.",
            maximum=17,
            synonyms=("compression.lz4.level",),
        ),
        integer(
            "compression.zstd.level",
            3,
            -131_072,
            "The level of zstd where batches are compressed here.",
            maximum=22,
            synonyms=("compression.zstd.level",),
        ),
        long(
            "delete.retention.ms",
            86_400_000,
            0,
            "How long a record without a value, which deletes its key, stays in a compacted topic "
            "after the cleaner met it.",
            synonyms=("log.cleaner.delete.retention.ms",),
        ),
        flag(
            DEAD_LETTERS_ENABLE,
            False,
            "Whether share groups may write their dead letters to the topic.",
        ),
        share_groups(
            RETENTION_GROUPS,
            RETENTION_GROUPS_MAX,
            "Share groups. What one of them has not finished is kept beyond retention.ms and "
            f"retention.bytes, up to {RETENTION_CAP_MS} and {RETENTION_CAP_BYTES}. At most "
            f"{RETENTION_GROUPS_MAX}. Not a Kafka setting.",
        ),
        long(
            RETENTION_CAP_MS,
            NO_LIMIT,
            NO_LIMIT,
            f"Records older than this are deleted, even if a group of {RETENTION_GROUPS} has not "
            "finished them, where retention.ms or retention.bytes would delete them; -1: age is no "
            "reason. Not a Kafka setting.",
        ),
        long(
            RETENTION_CAP_BYTES,
            NO_LIMIT,
            NO_LIMIT,
            f"As {RETENTION_CAP_MS}, for the oldest segments of a partition beyond this size. Not "
            "a Kafka setting.",
        ),
        flag(
            RETENTION_DROP,
            False,
            f"Whether closed segments that all groups of {RETENTION_GROUPS} have finished are "
            "deleted, whatever their age and size. Where no group is named, or one of them has not "
            "begun, nothing is. Not a Kafka setting.",
        ),
        idle(
            long("file.delete.delay.ms", 60_000, 0, "", synonyms=("log.segment.delete.delay.ms",)),
            "files are deleted at once, and readers that have them open read on",
        ),
        idle(
            long("flush.messages", LONG_MAX, 1, "", synonyms=("log.flush.interval.messages",)),
            _FLUSH_POLICY,
        ),
        idle(long("flush.ms", LONG_MAX, 0, ""), _FLUSH_POLICY),
        idle(throttled_replicas("follower.replication.throttled.replicas"), _NO_REPLICAS),
        idle(throttled_replicas("leader.replication.throttled.replicas"), _NO_REPLICAS),
        idle(
            long("local.retention.bytes", -2, -2, "", synonyms=("log.local.retention.bytes",)),
            _NO_TIERS,
        ),
        idle(
            long("local.retention.ms", -2, -2, "", synonyms=("log.local.retention.ms",)), _NO_TIERS
        ),
        long(
            MAX_LAG,
            LONG_MAX,
            1,
            "A record of a compacted topic is cleaned when it is this old, whatever the ratio.",
            synonyms=("log.cleaner.max.compaction.lag.ms",),
        ),
        integer(
            "max.decompressed.message.bytes",
            ARRAY_BYTES_MAX,
            1,
            "The largest record in a compressed batch, unpacked, in bytes. A whole batch may "
            "unpack to 256 MiB, whatever this says.",
            maximum=ARRAY_BYTES_MAX,
            synonyms=("max.decompressed.message.bytes",),
        ),
        idle(
            flag(_DOWN_CONVERSION, True, ""),
            "Kafka 4 has removed it. It is shown only where it is set",
        ),
        ConfigDef(
            name="min.cleanable.dirty.ratio",
            type=ConfigType.DOUBLE,
            default=0.5,
            minimum=0,
            maximum=1,
            doc="A compacted log is cleaned when more than this part of its bytes is not clean.",
            synonyms=("log.cleaner.min.cleanable.ratio",),
        ),
        long(
            MIN_LAG,
            0,
            0,
            "A record of a compacted topic stays at least this long.",
            synonyms=("log.cleaner.min.compaction.lag.ms",),
        ),
        idle(
            flag("preallocate", False, "", synonyms=("log.preallocate",)),
            "segment files grow as they are written",
        ),
        idle(
            long("remote.copy.lag.bytes", -1, -1, "", synonyms=("log.remote.copy.lag.bytes",)),
            _NO_TIERS,
        ),
        idle(
            long("remote.copy.lag.ms", 0, -1, "", synonyms=("log.remote.copy.lag.ms",)), _NO_TIERS
        ),
        idle(flag("remote.log.copy.disable", False, ""), _NO_TIERS),
        idle(flag("remote.log.delete.on.disable", False, ""), _NO_TIERS),
        idle(flag("remote.storage.enable", False, ""), f"{_NO_TIERS}, and true is refused"),
        idle(
            integer(
                "segment.index.bytes", 10_485_760, 4, "", synonyms=("log.index.size.max.bytes",)
            ),
            "an index grows as it is written",
        ),
        idle(
            long("segment.jitter.ms", 0, 0, ""),
            "one node's segments need not be spread over time",
        ),
        idle(
            flag(
                "unclean.leader.election.enable",
                False,
                "",
                synonyms=("unclean.leader.election.enable",),
            ),
            _NO_REPLICAS,
        ),
    ]
)


def check_topic_configs(overrides: Mapping[str, str]) -> None:
    """Refuse invalid topic settings; ``overrides`` are all settings that the topic would have.

    Raises:
        InvalidConfig: a name is unknown or a value is invalid; the message is Kafka's.
    """
    for name, text in overrides.items():
        definition = TOPIC_CONFIGS.get(name)
        if definition is None:
            near = nearest_name(name, TOPIC_CONFIGS)
            raise InvalidConfig(
                f"Unknown topic config name: {name}" + (f"; did you mean {near}?" if near else "")
            )
        if definition.parse(text) is True and name == "remote.storage.enable":
            raise InvalidConfig(
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            )
    least, most = [_own_number(name, overrides) for name in (MIN_LAG, MAX_LAG)]
    if least > most:
        raise InvalidConfig(
            f"conflict topic config setting {MIN_LAG} ({least}) > {MAX_LAG} ({most})"
        )


def _own_number(name: str, overrides: Mapping[str, str]) -> int:
    """A topic's own setting, else the default."""
    definition = TOPIC_CONFIGS[name]
    value = definition.parse(overrides[name]) if name in overrides else definition.default
    return value if isinstance(value, int) else 0


def topic_value(name: str, overrides: Mapping[str, str], broker: BrokerConfig) -> ConfigValue:
    """The effective value for a topic: its own setting, else the broker's, else the default."""
    definition = TOPIC_CONFIGS[name]
    if name in overrides:
        return definition.parse(overrides[name])
    return _inherited(definition, broker)


def log_settings(overrides: Mapping[str, str], broker: BrokerConfig) -> LogSettings:
    """The settings of a topic's logs. A topic that is only compacted keeps everything."""

    def number(name: str) -> int:
        value = topic_value(name, overrides, broker)
        return value if isinstance(value, int) else 0

    def word(name: str) -> str:
        return format_value(topic_value(name, overrides, broker))

    policies = word("cleanup.policy").split(",")
    deletes, compacts = "delete" in policies, "compact" in policies
    max_lag_ms = number(MAX_LAG)
    ratio = topic_value("min.cleanable.dirty.ratio", overrides, broker)
    return LogSettings(
        segment_bytes=number("internal.segment.bytes") or number("segment.bytes"),
        segment_ms=min(number("segment.ms"), max_lag_ms) if compacts else number("segment.ms"),
        retention_ms=number("retention.ms") if deletes else NO_LIMIT,
        retention_bytes=max(NO_LIMIT, number("retention.bytes")) if deletes else NO_LIMIT,
        max_message_bytes=number("max.message.bytes"),
        timestamp_type=TimestampType(word("message.timestamp.type")),
        timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
        index_interval_bytes=number("index.interval.bytes"),
        producer_expiration_ms=broker.integer("producer.id.expiration.ms"),
        flush_policy=FlushPolicy(word("flush.policy")),
        compacted=compacts,
        cleaned=compacts,
        codec=_CODECS.get(word("compression.type")),
        codec_level=_level(word("compression.type"), number),
        min_cleanable_ratio=ratio if isinstance(ratio, float) else float(str(ratio)),
        min_compaction_lag_ms=number(MIN_LAG),
        max_compaction_lag_ms=max_lag_ms,
        delete_retention_ms=number("delete.retention.ms"),
        record_bytes_max=number("max.decompressed.message.bytes"),
        names_groups=bool(word(RETENTION_GROUPS)),
        cap_ms=number(RETENTION_CAP_MS),
        cap_bytes=number(RETENTION_CAP_BYTES),
        drops_finished=deletes and topic_value(RETENTION_DROP, overrides, broker) is True,
        deduplication_window_ms=number(DEDUPLICATION_WINDOW),
    )


def _level(codec: str, number: Callable[[str], int]) -> int | None:
    """The level that is set for a codec; None: the codec's default, or the codec has no levels."""
    if codec not in ("gzip", "lz4", "zstd"):
        return None
    level = number(f"compression.{codec}.level")
    return None if codec == "gzip" and level < 0 else level


def describe_topic_configs(overrides: Mapping[str, str], broker: BrokerConfig) -> list[ConfigEntry]:
    """The settings of a topic as DescribeConfigs shows them. ``internal.`` settings, and settings
    of Kafka 3, are shown only if they are set."""
    return [
        _entry(definition, overrides, broker)
        for name, definition in TOPIC_CONFIGS.items()
        if name in overrides or not (name.startswith("internal.") or name == _DOWN_CONVERSION)
    ]


def _inherited(definition: ConfigDef, broker: BrokerConfig) -> ConfigValue:
    match definition.name:
        case "retention.ms":
            return broker.retention_ms
        case "segment.ms":
            return broker.segment_ms
        case _:
            named = next(iter(definition.synonyms), "")
            return broker[named] if named in BROKER_CONFIGS else definition.default


def _entry(
    definition: ConfigDef, overrides: Mapping[str, str], broker: BrokerConfig
) -> ConfigEntry:
    name = definition.name
    synonyms: list[ConfigSynonym] = []
    if name in overrides:
        own = ConfigSynonym(name=name, value=overrides[name], source=ConfigSource.DYNAMIC_TOPIC)
        synonyms.append(own)
    synonyms += broker_synonyms(broker, definition.synonyms, definition.default)
    return ConfigEntry(
        name=name,
        value=overrides.get(name, format_value(_inherited(definition, broker))),
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        type=definition.type,
        doc=definition.doc,
        synonyms=tuple(synonyms),
    )
