"""A topic's settings: its own, else the broker's (Kafka classes TopicConfig, LogConfig,
ServerTopicConfigSynonyms).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sharegroup.broker.configs.broker import BROKER_CONFIGS, BrokerConfig
from sharegroup.broker.configs.define import choice, flag, integer, long, names
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
from sharegroup.storage.settings import NO_LIMIT, FlushPolicy, LogSettings, TimestampType
from sharegroup.wire.compression import GZIP, LZ4, SNAPPY, ZSTD

_NOTHING: Final = "Accepted; does nothing here."

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
            "How batches are stored; producer: as they came.",
            synonyms=("compression.type",),
        ),
        integer(
            "compression.gzip.level",
            -1,
            -1,
            "The level of gzip where batches are compressed here; -1 is gzip's own default.",
            maximum=9,
            synonyms=("compression.gzip.level",),
        ),
        integer(
            "compression.lz4.level",
            9,
            1,
            _NOTHING,
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
        long("file.delete.delay.ms", 60_000, 0, _NOTHING),
        long("flush.messages", LONG_MAX, 1, f"{_NOTHING} Write flush.policy."),
        long("flush.ms", LONG_MAX, 0, f"{_NOTHING} Write flush.policy."),
        names("follower.replication.throttled.replicas", (), _NOTHING),
        names("leader.replication.throttled.replicas", (), _NOTHING),
        long("local.retention.bytes", -2, -2, _NOTHING),
        long("local.retention.ms", -2, -2, _NOTHING),
        long(
            "max.compaction.lag.ms",
            LONG_MAX,
            1,
            "A record of a compacted topic is cleaned when it is this old, whatever the ratio.",
            synonyms=("log.cleaner.max.compaction.lag.ms",),
        ),
        flag("message.downconversion.enable", True, _NOTHING),
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
            "min.compaction.lag.ms",
            0,
            0,
            "A record of a compacted topic stays at least this long.",
            synonyms=("log.cleaner.min.compaction.lag.ms",),
        ),
        flag("preallocate", False, _NOTHING),
        long("remote.copy.lag.bytes", 0, -2, _NOTHING),
        long("remote.copy.lag.ms", 0, -2, _NOTHING),
        flag("remote.log.copy.disable", False, _NOTHING),
        flag("remote.log.delete.on.disable", False, _NOTHING),
        flag("remote.storage.enable", False, _NOTHING),
        integer("segment.index.bytes", 10_485_760, 4, _NOTHING),
        long("segment.jitter.ms", 0, 0, _NOTHING),
        flag("unclean.leader.election.enable", False, _NOTHING),
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
        definition.parse(text)


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
    max_lag_ms = number("max.compaction.lag.ms")
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
        min_compaction_lag_ms=number("min.compaction.lag.ms"),
        max_compaction_lag_ms=max_lag_ms,
        delete_retention_ms=number("delete.retention.ms"),
    )


def _level(codec: str, number: Callable[[str], int]) -> int | None:
    """The level that is set for a codec; None for its own default, or if levels do nothing."""
    if codec == "zstd":
        return number("compression.zstd.level")
    level = number("compression.gzip.level") if codec == "gzip" else -1
    return None if level < 0 else level


def describe_topic_configs(overrides: Mapping[str, str], broker: BrokerConfig) -> list[ConfigEntry]:
    """DescribeConfigs of a topic; ``internal.`` settings only where they are set."""
    return [
        _entry(definition, overrides, broker)
        for name, definition in TOPIC_CONFIGS.items()
        if name in overrides or not name.startswith("internal.")
    ]


def _inherited(definition: ConfigDef, broker: BrokerConfig) -> ConfigValue:
    match definition.name:
        case "retention.ms":
            return broker.retention_ms
        case "segment.ms":
            return broker.segment_ms
        case _:
            return broker[definition.synonyms[0]] if definition.synonyms else definition.default


def _entry(
    definition: ConfigDef, overrides: Mapping[str, str], broker: BrokerConfig
) -> ConfigEntry:
    name = definition.name
    synonyms: list[ConfigSynonym] = []
    if name in overrides:
        own = ConfigSynonym(name=name, value=overrides[name], source=ConfigSource.DYNAMIC_TOPIC)
        synonyms.append(own)
    inherited = format_value(_inherited(definition, broker))
    for synonym in definition.synonyms:
        if synonym in broker.dynamic:
            text, source = broker.dynamic[synonym], ConfigSource.DYNAMIC_BROKER
        elif synonym in broker.static:
            text, source = broker.static[synonym], ConfigSource.STATIC_BROKER
        else:
            default = BROKER_CONFIGS[synonym].default
            if default is None:
                continue
            text, source = format_value(default), ConfigSource.DEFAULT
        synonyms.append(ConfigSynonym(name=synonym, value=text, source=source))
    if not definition.synonyms and definition.default is not None:
        synonyms.append(ConfigSynonym(name=name, value=inherited, source=ConfigSource.DEFAULT))
    return ConfigEntry(
        name=name,
        value=overrides.get(name, inherited),
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        type=definition.type,
        doc=definition.doc,
        synonyms=tuple(synonyms),
    )
