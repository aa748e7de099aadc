from __future__ import annotations

import pytest

from sharegroup.groups.config import (
    GROUP_CONFIGS,
    KAFKAS_DEFAULTS,
    Bounded,
    GroupSettings,
    effective,
    today,
)
from sharegroup.groups.config_description import describe_group_configs
from sharegroup.groups.config_rules import check_group_configs
from sharegroup.groups.offset_reset import OffsetReset, OffsetResetKind
from sharegroup.model.config import ConfigSource, ConfigSynonym
from sharegroup.model.errors import InvalidConfig

BROKER = KAFKAS_DEFAULTS


def test_without_settings_a_group_has_kafkas_defaults() -> None:
    assert effective({}, BROKER) == GroupSettings()


def test_a_groups_own_settings_win() -> None:
    own = {
        "share.record.lock.duration.ms": "60000",
        "share.auto.offset.reset": "by_duration:PT1H",
        "share.isolation.level": "read_committed",
        "share.renew.acknowledge.enable": "false",
    }
    check_group_configs(own, BROKER)
    assert effective(own, BROKER) == GroupSettings(
        record_lock_duration_ms=60_000,
        auto_offset_reset=OffsetReset(OffsetResetKind.BY_DURATION, 3_600_000),
        isolation_level="read_committed",
        renew_acknowledge_enable=False,
    )


def test_values_are_clamped_when_the_brokers_bounds_have_shrunk() -> None:
    broker = {**BROKER, "share.delivery.count.limit": Bounded(5, 2, 6)}
    assert effective({"share.delivery.count.limit": "10"}, broker).delivery_count_limit == 6


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("share.session.timeout.ms", "44999", "must be in the range 45000 to 60000 inclusive"),
        ("share.delivery.count.limit", "11", "must be in the range 2 to 10 inclusive"),
        ("share.delivery.count.limit", "1", "Value must be at least 2"),
        ("share.record.lock.duration.ms", "ten", "Not a number of type INT"),
        ("share.isolation.level", "serializable", "String must be one of: read_committed, read_"),
        ("share.auto.offset.reset", "by_duration:x", "Unable to parse duration string"),
        ("share.renew.acknowledge.enable", "yes", "either true or false"),
        ("share.delivery.count.limits", "3", "did you mean share.delivery.count.limit?"),
        ("share.delivery.attempt.limit", "3", "did you mean share.delivery.count.limit?"),
        ("colour", "red", "Unknown group config name: colour$"),
    ],
)
def test_refusals(name: str, value: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words.replace("?", r"\?")):
        check_group_configs({name: value}, BROKER)


def test_a_session_outlasts_a_heartbeat_interval() -> None:
    broker = {**BROKER, "share.heartbeat.interval.ms": Bounded(5_000, 5_000, 50_000)}
    with pytest.raises(InvalidConfig, match="must be greater than share"):
        check_group_configs({"share.heartbeat.interval.ms": "45000"}, broker)


def test_draft_names_are_replaced() -> None:
    assert today({"record.lock.duration.ms": "1", "share.isolation.level": "x"}) == {
        "share.record.lock.duration.ms": "1",
        "share.isolation.level": "x",
    }


def test_describe_says_where_each_value_comes_from() -> None:
    own = {"share.session.timeout.ms": "50000"}
    limit = "group.share.delivery.count.limit"
    altered = ConfigSynonym(name=limit, value="6", source=ConfigSource.DYNAMIC_BROKER)
    default = ConfigSynonym(name=limit, value="5", source=ConfigSource.DEFAULT)
    described = describe_group_configs(own, BROKER, {limit: (altered, default)})
    entries = {entry.name: entry for entry in described}
    assert list(entries) == list(GROUP_CONFIGS)
    session = entries["share.session.timeout.ms"]
    assert (session.value, session.source) == ("50000", ConfigSource.GROUP)
    assert [(s.name, s.value) for s in session.synonyms] == [
        ("share.session.timeout.ms", "50000"),
        ("group.share.session.timeout.ms", "45000"),
    ]
    delivery = entries["share.delivery.count.limit"]
    assert (delivery.value, delivery.source) == ("6", ConfigSource.DYNAMIC_BROKER)
    assert delivery.synonyms == (altered, default)
    reset = entries["share.auto.offset.reset"]
    assert (reset.value, reset.is_default) == ("latest", True)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("streams.session.timeout.ms", "there are no streams groups"),
    ],
)
def test_kafkas_settings_without_a_meaning_here_are_refused(name: str, why: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{name} cannot be set here: {why}"):
        check_group_configs({name: "1"}, KAFKAS_DEFAULTS)
