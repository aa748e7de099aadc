"""Progress in very many pieces, written to a running broker."""

from __future__ import annotations

import asyncio

import pytest

from sharegroup.client.admin.admin import Admin
from sharegroup.client.network.cluster import Cluster
from sharegroup.model.ids import TopicPartition
from sharegroup.move.progress import Progress, Row
from sharegroup.move.share_groups import missing, progress_at, write
from sharegroup.move.share_state_requests import ROWS_AT_ONCE
from sharegroup.move.side import Side
from sharegroup.share.record_state import RecordState
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process
WHERE = TopicPartition("pieces", 0)


def test_more_rows_than_a_request_has(target: SharegroupServer) -> None:
    rows = tuple(
        Row(at, at, RecordState.ACKNOWLEDGED if at % 2 else RecordState.AVAILABLE, 1 + at % 3)
        for at in range(ROWS_AT_ONCE + 1_001)
    )
    wanted = {WHERE: Progress(0, rows)}

    async def scenario() -> None:
        async with Cluster(target.bootstrap) as cluster, Admin(cluster=cluster) as admin:
            side = Side(target.bootstrap, cluster, admin)
            await admin.create_topics("pieces", partitions=1)
            assert await missing(side, "counters", wanted) == wanted
            await write(side, "counters", wanted)
            there = (await progress_at(side, "counters", [WHERE]))[WHERE]
            assert there.same_as(wanted[WHERE])
            assert there.finished == len(rows) // 2
            assert await missing(side, "counters", wanted) == {}
            # Once more, elsewhere: nobody has worked on it yet.
            later = {WHERE: Progress(9)}
            assert await missing(side, "counters", later) == later
            await write(side, "counters", later)
            assert (await progress_at(side, "counters", [WHERE]))[WHERE] == Progress(9)

    asyncio.run(scenario())
