"""Records of consumer groups: what is written is read back, in Kafka's bytes."""

from __future__ import annotations

from uuid import UUID

import pytest

from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer import records
from sharegroup.groups.consumer.groups import ConsumerGroups
from sharegroup.groups.records import Tombstone
from sharegroup.model.errors import MalformedMessage
from sharegroup.wire.internal.consumer_groups import KEY_PREFIXES, decode_record, encode_record

TOPIC = UUID(int=78)
MEMBER = records.ConsumerMemberMetadata(
    group_id="g",
    member_id="m",
    instance_id="i",
    rack_id=None,
    client_id="c",
    client_host="/127.0.0.1",
    subscribed_topics=("a", "b"),
    subscribed_regex="x.*",
    rebalance_timeout_ms=300_000,
    server_assignor="range",
)
CLASSIC = records.ConsumerMemberMetadata(
    group_id="g",
    member_id="old",
    instance_id=None,
    rack_id="r",
    client_id="c",
    client_host="/127.0.0.1",
    subscribed_topics=("a",),
    subscribed_regex=None,
    rebalance_timeout_ms=300_000,
    server_assignor=None,
    classic=records.ClassicMetadata(session_timeout_ms=45_000, protocols=(("range", b"\0\1"),)),
)
RECORDS: list[records.ConsumerRecord] = [
    MEMBER,
    CLASSIC,
    records.ConsumerGroupMetadata(group_id="g", epoch=4, metadata_hash=-5),
    records.ConsumerTargetAssignmentMetadata(group_id="g", assignment_epoch=4),
    records.ConsumerTargetAssignmentMember(group_id="g", member_id="m", assignment={TOPIC: (0, 2)}),
    records.ConsumerCurrentMemberAssignment(
        group_id="g",
        member_id="m",
        member_epoch=4,
        previous_member_epoch=3,
        state=1,
        assigned={TOPIC: {0: 2, 2: 4}},
        revoking={TOPIC: {1: 3}},
    ),
    records.ResolvedRegex(group_id="g", regex="x.*", topics=("x1", "x2")),
    Tombstone(key_type=3, group_id="g"),
    Tombstone(key_type=7, group_id="g", member_id="m"),
    Tombstone(key_type=16, group_id="g", member_id="x.*"),
]


@pytest.mark.parametrize("record", RECORDS)
def test_records_round_trip(record: records.ConsumerRecord) -> None:
    assert decode_record(*encode_record(record)) == record


def test_a_current_assignment_without_epochs_has_the_members() -> None:
    """Kafka before 4.2 wrote no epochs of partitions."""
    key = b"\0\x08" + b"\0\1g" + b"\0\1m"
    topic = TOPIC.bytes + b"\2" + b"\0\0\0\7" + b"\0"
    value = b"\0\0" + b"\0\0\0\5" + b"\0\0\0\4" + b"\0" + b"\2" + topic + b"\1" + b"\0"
    found = decode_record(key, value)
    assert isinstance(found, records.ConsumerCurrentMemberAssignment)
    assert found.assigned == {TOPIC: {7: 5}}


def test_a_member_of_the_consumer_protocol_says_so() -> None:
    """As Kafka's: its reader takes a record without the tagged field for a classic member's."""
    _, value = encode_record(MEMBER)
    assert value is not None
    assert value.endswith(b"\1\0\1\0")
    found = decode_record(encode_record(MEMBER)[0], value.removesuffix(b"\1\0\1\0") + b"\0")
    assert isinstance(found, records.ConsumerMemberMetadata)
    assert found.classic == records.ClassicMetadata(session_timeout_ms=0, protocols=())


def test_kafkas_former_topic_metadata_is_not_kept() -> None:
    key = b"\0\x04" + b"\0\1g"
    assert key[:2] in KEY_PREFIXES
    assert decode_record(key, b"\0\0\1\0") is None
    assert decode_record(key, None) is None


def test_a_cut_value_is_malformed() -> None:
    key, value = encode_record(MEMBER)
    assert value is not None
    with pytest.raises(MalformedMessage):
        decode_record(key, value[:-3])


def test_a_classic_members_metadata_survives_replay_and_rewrite() -> None:
    groups = ConsumerGroups(lambda _: GroupSettings())
    for record in (CLASSIC, RECORDS[2]):
        groups.table.replay(record)
    assert CLASSIC in list(groups.table.records("g"))
