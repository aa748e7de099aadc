"""A connection that does not wait for its answers sees its own commits."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharegroup.broker.server import Broker
from sharegroup.wire import apis
from sharegroup.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from sharegroup.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.broker.running import run
from tests.broker.share_wire import new_topic
from tests.broker.transaction_wire import Peer, close_all


@pytest.mark.parametrize("commits", [1, 3])
def test_a_fetch_sees_the_commits_before_it_on_its_connection(commits: int, tmp_path: Path) -> None:
    """Sent without waiting, in a new folder, where the first makes the topic of offsets."""

    async def scenario(broker: Broker, port: int) -> None:
        await new_topic(broker, port, 1)
        peer = await Peer.connect(port)
        for offset in range(1, commits + 1):
            partition = OffsetCommitRequestPartition(0, offset, -1, None)
            topics = [OffsetCommitRequestTopic("jobs", partitions=[partition])]
            peer.post(apis.OFFSET_COMMIT, 9, OffsetCommitRequest("readers", topics=topics))
        asked = OffsetFetchRequestGroup(
            "readers", topics=[OffsetFetchRequestTopics("jobs", partition_indexes=[0])]
        )
        peer.post(apis.OFFSET_FETCH, 9, OffsetFetchRequest(groups=[asked]))
        for _ in range(commits):
            answer = await peer.answer(apis.OFFSET_COMMIT, 9)
            assert answer.topics[0].partitions[0].error_code == 0
        [group] = (await peer.answer(apis.OFFSET_FETCH, 9)).groups
        assert group.topics[0].partitions[0].committed_offset == commits
        await close_all()

    run(tmp_path, scenario)
