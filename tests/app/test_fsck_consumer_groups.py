"""What a check says of consumer groups (KIP-848)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.broker.internal_topics import CONSUMER_OFFSETS
from sharegroup.broker.server import Broker
from sharegroup.groups.consumer.heartbeat import ConsumerHeartbeat
from sharegroup.groups.consumer.records import ConsumerCurrentMemberAssignment
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.internal.consumer_groups import encode_record
from tests.app.checked import check, kinds
from tests.broker import running


@pytest.mark.parametrize("found", [set(), {"record-unreadable"}, {"group-state"}])
def test_a_group_is_sound_and_what_cannot_be_is_found(tmp_path: Path, found: set[str]) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        joining = ConsumerHeartbeat(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topics=("foo",),
            owned={},
        )
        joined = await broker.parts.consumer_groups.heartbeat(joining)
        too_new = ConsumerCurrentMemberAssignment(
            group_id="g",
            member_id="m",
            member_epoch=joined.member_epoch + 1,
            previous_member_epoch=joined.member_epoch,
            state=0,
            assigned={},
            revoking={},
        )
        key, value = encode_record(too_new)
        assert value is not None
        log = broker.parts.topics.internal_log(CONSUMER_OFFSETS, 0)
        for kind, record in (("record-unreadable", value[:6]), ("group-state", value)):
            if kind in found:
                log.append_trusted(encode_batch([(key, record)], timestamp_ms=0))

    running.run(tmp_path, scenario)
    assert kinds(check(tmp_path / "data")) == found
