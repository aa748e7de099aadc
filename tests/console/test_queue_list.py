"""Of very many queues each look asks about some, and all are there soon."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup import Admin, Producer, ShareConsumer
from sharegroup.client.network.cluster import Cluster
from sharegroup.console import queue_list as module
from sharegroup.console import rates as rates_module
from sharegroup.console.letter_counts import LetterCounts
from sharegroup.console.queue_list import QueueList, state_of
from sharegroup.console.queue_views import QueueViews
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


@pytest.mark.parametrize("whole", [False, True])
def test_what_comes_in_the_middle_of_a_look_does_not_count_as_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """Nor are the records of another topic written when the group begins to read it."""
    monkeypatch.setattr(rates_module, "STEP_S", 0)

    async def scenario(bootstrap: str) -> None:
        cluster = Cluster(bootstrap)
        async with Producer(bootstrap) as producer, Admin(cluster=cluster) as admin:
            await admin.create_topics(TOPIC, "other")
            await admin.alter_share_group_offsets("one", {TopicPartition(TOPIC, 0): 0})
            views = QueueViews(admin, cluster)
            rates = views.rates
            asked = admin.summarize_share_groups
            coming = 0

            async def summarized(groups: list[str]) -> object:
                found = await asked(groups)
                for _ in range(coming):
                    await producer.send(TOPIC, b"x")
                return found

            monkeypatch.setattr(admin, "summarize_share_groups", summarized)

            async def seen() -> dict[str, object]:
                if whole:
                    return await views.one("one")
                [line] = (await views.list.watched())["queues"]
                return dict(line)

            first = await seen()
            assert first["finished"] == []
            assert state_of(first, 1, paused=False).finished_per_s is None
            for coming in (5, 1, 3):  # noqa: B007  # summarized() reads it
                found = await seen()
            history = rates["one"]
            assert history.finished() == [0.0, 0.0, 0.0]
            assert all(history.written())
            assert state_of(found, 1, paused=False).finished_per_s == 0
            await producer.send("other", b"y")
            await admin.alter_share_group_offsets("one", {TopicPartition("other", 0): 0})
            views.list.forget("one")
            assert (await seen())["written"] == []
        await cluster.close()

    with SharegroupServer(tmp_path) as server:
        asyncio.run(scenario(server.bootstrap))
