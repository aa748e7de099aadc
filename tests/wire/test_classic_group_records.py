"""Records of classic groups: every version of Kafka's, and what is no such record."""

from __future__ import annotations

import struct
import tracemalloc
from dataclasses import replace

import pytest

from sharegroup.groups.classic.group import Group, State
from sharegroup.groups.classic.records import (
    ClassicGroupRecord,
    ClassicMemberRecord,
    ClassicTombstone,
)
from sharegroup.groups.classic.subscription import subscribed_topics
from sharegroup.model.errors import MalformedMessage
from sharegroup.wire.batch import decode_batch, encode_batch
from sharegroup.wire.codec import encode_bytes
from sharegroup.wire.internal.classic_groups import (
    GroupMetadataValue,
    MemberMetadata,
    decode_record,
    encode_record,
)

KEY = b"\0\2\0\1g"
SUBSCRIPTION = b"\0\1\0\0\0\2\0\3foo\0\3bar\xff\xff\xff\xff"


def record(*members: ClassicMemberRecord, **other: object) -> ClassicGroupRecord:
    fields: dict[str, object] = {
        "group_id": "g",
        "protocol_type": "consumer",
        "generation": 7,
        "protocol_name": "range",
        "leader": "m",
        "since_ms": 1_000,
        "members": members,
    }
    return ClassicGroupRecord(**{**fields, **other})  # type: ignore[arg-type]


def member(member_id: str = "m", instance_id: str | None = None) -> ClassicMemberRecord:
    return ClassicMemberRecord(
        member_id=member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        subscription=SUBSCRIPTION,
        assignment=b"a",
    )


@pytest.mark.parametrize(
    "one",
    [
        record(member(instance_id="i"), member("n")),
        record(protocol_type="", generation=0, protocol_name=None, leader=None, since_ms=None),
        ClassicTombstone(group_id="g"),
    ],
)
def test_what_is_written_is_read(one: ClassicGroupRecord | ClassicTombstone) -> None:
    key, pieces = encode_record(one)
    value = None if pieces is None else b"".join(pieces)
    assert key == KEY
    assert value is None or value[:2] == b"\0\3"
    assert decode_record(key, value) == one


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_read(version: int) -> None:
    """A field that a version lacks is unknown, or as Kafka replaces it."""
    value = GroupMetadataValue(
        "consumer",
        7,
        "range",
        "m",
        1_000,
        [MemberMetadata("m", "i", "c", "/127.0.0.1", 60_000, 10_000, SUBSCRIPTION, b"a")],
    )
    found = decode_record(KEY, struct.pack(">h", version) + encode_bytes(value, version))
    assert isinstance(found, ClassicGroupRecord)
    assert found.since_ms == (1_000 if version >= 2 else None)
    (one,) = found.members
    assert one.instance_id == ("i" if version >= 3 else None)
    assert one.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)
    group = Group.replayed(found)
    assert (group.state, group.leader, group.generation) == (State.STABLE, "m", 7)
    assert group.topics == frozenset({"foo", "bar"})
    group.check_invariants()


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\5", b"\xff\xff", b"\0\3\0\1"])
def test_what_is_no_value(value: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode_record(KEY, value)


@pytest.mark.parametrize(
    "bad",
    [
        record(member(), member()),
        record(member(instance_id="i"), member("n", "i")),
        record(member(), protocol_name=None),
        record(member(), protocol_type=""),
    ],
)
def test_a_record_that_contradicts_itself(bad: ClassicGroupRecord) -> None:
    with pytest.raises(MalformedMessage):
        Group.replayed(bad)


def test_a_leader_that_is_no_member_is_replaced() -> None:
    assert Group.replayed(record(member(), leader="gone")).leader == "m"


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        SUBSCRIPTION[:8],
        SUBSCRIPTION[:12],
        b"\xff\xff" + SUBSCRIPTION[2:],
        b"\0\0\xff\xff\xff\xff",
        b"\0\0\0\0\0\1\xff\xff",
        b"\0\0\0\0\0\1\0\1\xff",
        b"\0\0\x7f\xff\xff\xff",
    ],
)
def test_metadata_that_is_no_subscription(bad: bytes) -> None:
    with pytest.raises(MalformedMessage):
        subscribed_topics(bad)


def test_a_group_with_unreadable_metadata_may_subscribe_to_anything() -> None:
    one = member()
    unreadable = ClassicMemberRecord(
        **{name: getattr(one, name) for name in one.__slots__ if name != "subscription"},
        subscription=b"?",
    )
    assert Group.replayed(record(unreadable)).subscribes("foo")
    assert not Group.replayed(record(one)).subscribes("other")
    assert not Group.replayed(record(unreadable, protocol_type="connect")).subscribes("foo")


def test_the_metadata_of_a_group_is_copied_once_on_its_way_to_the_log() -> None:
    large = replace(member(), subscription=bytes(2 << 20))
    group = record(*(replace(large, member_id=f"m{number}") for number in range(4)))
    tracemalloc.start()
    try:
        batch = encode_batch([encode_record(group)], timestamp_ms=0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(batch) + (1 << 20)
    ((_, _, key, value),) = decode_batch(batch)
    assert key is not None
    assert decode_record(key, value) == group
