"""Of very many queues each look asks about some, and all are there soon."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup import Admin, Producer, ShareConsumer
from sharegroup.client.network.cluster import Cluster
from sharegroup.console import queue_list as module
from sharegroup.console.letter_counts import LetterCounts
from sharegroup.console.queue_list import QueueList
from sharegroup.model.ids import TopicPartition
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process
TOPIC = "jobs"
GROUPS = [f"queue-{number:02}" for number in range(10)]


def test_the_rest_of_many_queues_is_asked_about_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_QUEUES", 2)
    monkeypatch.setattr(module, "FIRST_S", 0)

    async def scenario(bootstrap: str) -> None:
        cluster = Cluster(bootstrap)
        async with Producer(bootstrap) as producer, Admin(cluster=cluster) as admin:
            await admin.create_topics(TOPIC)
            await producer.send(TOPIC, b"1")
            for group in GROUPS:
                await admin.alter_share_group_offsets(group, {TopicPartition(TOPIC, 0): 0})
            queues = QueueList(admin, {}, LetterCounts(admin, cluster))
            left = [(await queues.watched())["more"] for _ in range(5)]
            assert left == [8, 6, 4, 2, 0]
            shown = await queues.watched()
            assert [one["group"] for one in shown["queues"]] == GROUPS
            assert {one["lag"] for one in shown["queues"]} == {1}

            await producer.send(TOPIC, b"2")
            shown = await queues.watched()
            assert {one["lag"] for one in shown["queues"]} == {2}, "told by the ends"

            begin = {TopicPartition(TOPIC, 0): 2}
            await admin.alter_share_group_offsets(GROUPS[0], begin)
            while (await queues.watched())["queues"][0]["lag"]:
                continue  # its turn comes
            await admin.alter_share_group_offsets(GROUPS[5], begin)
            queues.forget(GROUPS[5])
            await admin.alter_share_group_offsets(GROUPS[4], begin)
            monkeypatch.setattr(module, "LOOK_QUEUES", 100)
            shown = await queues.watched()
            lags = [one["lag"] for one in shown["queues"]]
            assert lags[4:6] == [0, 0], "the other ones are asked about as well"
            monkeypatch.setattr(module, "LOOK_QUEUES", 2)

            async with ShareConsumer(
                TOPIC, group_id=GROUPS[9], bootstrap_servers=bootstrap
            ) as member:
                while not await member.poll():
                    continue
                queues.forget("any")  # the list is asked for again
                await queues.watched()
                shown = await queues.watched()
                assert shown["queues"][9]["members"] == 1, "those with members come first"
            await admin.delete_share_groups(*GROUPS[:9])
            queues.forget("any")
            assert [one["group"] for one in (await queues.watched())["queues"]] == GROUPS[9:]
        await cluster.close()

    with SharegroupServer(tmp_path) as server:
        asyncio.run(scenario(server.bootstrap))
