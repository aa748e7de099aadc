from __future__ import annotations

import pytest

from sharegroup.broker.configs.broker import load
from sharegroup.broker.configs.topic import (
    TOPIC_CONFIGS,
    check_topic_configs,
    describe_topic_configs,
    log_settings,
    topic_value,
)
from sharegroup.model.config import ConfigSource, format_value
from sharegroup.model.errors import InvalidConfig
from sharegroup.model.log_settings import FlushPolicy, LogSettings, TimestampType

BROKER = load()


def test_every_default_is_a_value_of_its_own_setting_and_the_brokers() -> None:
    for name, definition in TOPIC_CONFIGS.items():
        if definition.default is not None:
            assert definition.parse(format_value(definition.default)) == definition.default
            assert topic_value(name, {}, BROKER) == definition.default


def test_a_topic_without_settings_has_kafkas() -> None:
    assert log_settings({}, BROKER) == LogSettings()


def test_the_brokers_settings_are_the_topics_defaults() -> None:
    broker = load("log.retention.hours=1\nlog.roll.ms=5\nmessage.max.bytes=9\nflush.policy=system")
    settings = log_settings({}, broker)
    assert (settings.retention_ms, settings.segment_ms) == (3_600_000, 5)
    assert (settings.max_message_bytes, settings.flush_policy) == (9, FlushPolicy.SYSTEM)


def test_a_topics_own_settings_win() -> None:
    own = {
        "retention.ms": "10",
        "message.timestamp.type": "LogAppendTime",
        "internal.segment.bytes": "4096",
        "flush.policy": "system",
    }
    check_topic_configs(own)
    settings = log_settings(own, BROKER)
    assert (settings.retention_ms, settings.segment_bytes) == (10, 4096)
    assert settings.timestamp_type is TimestampType.LOG_APPEND_TIME


def test_only_a_policy_with_delete_deletes() -> None:
    own = {"retention.ms": "10", "retention.bytes": "10", "cleanup.policy": "compact"}
    assert log_settings(own, BROKER).retention_ms == -1
    assert log_settings(own, BROKER).retention_bytes == -1
    both = {**own, "cleanup.policy": "compact,delete"}
    assert log_settings(both, BROKER).retention_ms == 10


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (
            "retention.mss",
            "1",
            r"Unknown topic config name: retention.mss; did you mean retention.ms",
        ),
        ("colour", "red", "Unknown topic config name: colour$"),
        ("segment.bytes", "1048575", "Value must be at least 1048576"),
        ("cleanup.policy", "shred", "String must be one of: compact, delete"),
        ("compression.type", "rar", "String must be one of"),
    ],
)
def test_refusals(name: str, value: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        check_topic_configs({name: value})


def test_describe_says_where_each_value_comes_from() -> None:
    broker = load("log.retention.hours=1").altered({"log.segment.bytes": "2000000"})
    entries = {e.name: e for e in describe_topic_configs({"max.message.bytes": "7"}, broker)}
    assert "internal.segment.bytes" not in entries
    own = entries["max.message.bytes"]
    assert (own.value, own.source) == ("7", ConfigSource.DYNAMIC_TOPIC)
    assert [(s.name, s.value) for s in own.synonyms][1:] == [("message.max.bytes", "1048588")]
    retention = entries["retention.ms"]
    assert (retention.value, retention.source) == ("3600000", ConfigSource.STATIC_BROKER)
    segment = entries["segment.bytes"]
    assert (segment.value, segment.source) == ("2000000", ConfigSource.DYNAMIC_BROKER)
    assert entries["preallocate"].is_default


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("compression.gzip.level", "0", "Value must be between 1 and 9 or equal to -1"),
        ("leader.replication.throttled.replicas", "0:1,1", r"Invalid value \[0:1, 1\] for"),
        ("remote.storage.enable", "true", "Tiered Storage functionality is disabled"),
        ("max.decompressed.message.bytes", "0", "Value must be at least 1"),
    ],
)
def test_values_that_kafka_refuses_or_that_cannot_be_served(
    name: str, value: str, words: str
) -> None:
    with pytest.raises(InvalidConfig, match=words):
        check_topic_configs({name: value})


@pytest.mark.parametrize("most", ["5", "10", None])
def test_what_must_stay_may_not_be_older_than_what_must_go(most: str | None) -> None:
    own = {"min.compaction.lag.ms": "10"} | ({"max.compaction.lag.ms": most} if most else {})
    if most != "5":
        check_topic_configs(own)
        return
    words = r"min\.compaction\.lag\.ms \(10\) > max\.compaction\.lag\.ms \(5\)"
    with pytest.raises(InvalidConfig, match=words):
        check_topic_configs(own)


def test_a_setting_without_effect_says_why_and_is_accepted() -> None:
    idle = {name: each for name, each in TOPIC_CONFIGS.items() if each.no_effect}
    assert len(idle) == 17
    for name, definition in idle.items():
        check_topic_configs({name: format_value(definition.default)})
        assert definition.doc == f"No effect here: {definition.no_effect}."


def test_a_setting_of_kafka_3_is_shown_only_where_it_is_set() -> None:
    name = "message.downconversion.enable"
    assert name not in {entry.name for entry in describe_topic_configs({}, BROKER)}
    assert name in {entry.name for entry in describe_topic_configs({name: "true"}, BROKER)}
