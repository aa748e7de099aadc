"""What a check says of committed offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.broker.coordination.log import ProducerEpoch
from sharegroup.broker.coordination.offset_coordinator import OffsetTransaction
from sharegroup.broker.internal_topics import CONSUMER_OFFSETS
from sharegroup.broker.server import Broker
from sharegroup.groups.offsets import Commit, CommitClient, CommittedOffset
from sharegroup.wire.batch import encode_batch
from tests.app.checked import check, kinds
from tests.broker import running


async def allow_all(transaction: OffsetTransaction, offsets_partition: int) -> None:
    """The coordinator of transactions is not asked."""


@pytest.mark.parametrize("value", [None, b"\0\3not an offset"])
def test_transactions_are_sound_and_garbage_is_not(tmp_path: Path, value: bytes | None) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        topic = await broker.parts.topics.create("jobs", 1, {})
        commits = [Commit("jobs", 0, CommittedOffset(5, topic_id=topic.topic_id))]
        offsets = broker.parts.offsets
        offsets.check_transaction = allow_all
        for ends in (True, False, None):
            await offsets.commit_in_transaction(
                CommitClient("readers", "", None, -1, transactional=True, version=5),
                OffsetTransaction("t", ProducerEpoch(7, 0), 5),
                commits,
            )
            if ends is not None:
                await offsets.complete_transaction(0, 7, 0, committed=ends, coordinator_epoch=0)
        if value is not None:
            log = broker.parts.topics.internal_log(CONSUMER_OFFSETS, 0)
            key = b"\0\1\0\1g\0\4jobs\0\0\0\0"
            log.append_trusted(encode_batch([(key, value)], timestamp_ms=0))

    running.run(tmp_path, scenario)
    outcome = check(tmp_path / "data")
    assert kinds(outcome) == (set() if value is None else {"record-unreadable"})
