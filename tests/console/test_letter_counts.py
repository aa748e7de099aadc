"""How many dead letters each queue has, at a glance."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from sharegroup import Admin, Producer
from sharegroup.client.network.cluster import Cluster
from sharegroup.console import letter_counts as module
from sharegroup.console.letter_counts import LetterCounts
from sharegroup.model.ids import TopicPartition
from tests.client.dead_letters import said
from tests.console.running import Console, console
from tests.servers.sharegroup_server import SharegroupServer

pytestmark = pytest.mark.process
TOPIC_NAME = "errors.deadletterqueue.topic.name"
JOBS = "jobs"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("letters")) as running:
        asyncio.run(prepare(running.bootstrap))
        yield running


async def prepare(bootstrap: str) -> None:
    """Four letters of the group ``alone``, two of ``one`` and one of ``other`` in one topic; the
    group ``none`` names no topic, ``early`` one that is not there yet."""
    async with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        await admin.create_topics(JOBS, "dlq.alone", "dlq.both", partitions=2)
        for group, dead, letters in (
            ("alone", "dlq.alone", 4),
            ("one", "dlq.both", 2),
            ("other", "dlq.both", 1),
            ("none", None, 0),
            ("early", "dlq.early", 0),
        ):
            await admin.alter_share_group_offsets(group, {TopicPartition(JOBS, 0): 0})
            if dead is not None:
                await admin.alter_configs("group", group, {TOPIC_NAME: dead})
            for at in range(letters):
                headers = said(group, JOBS, 0, at, timestamp=1_000, cause="rejected")
                await producer.send(str(dead), f"{at}", headers=headers, partition=at % 2)


def lines(page: Console) -> dict[str, tuple[int | None, bool]]:
    found = page.json("queues")["queues"]
    return {one["group"]: (one["letters"], one["letters_shared"]) for one in found}


def test_the_first_page_and_a_queue_s_own_say_how_many_there_are(
    server: SharegroupServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with console(server.bootstrap, tmp_path_factory.mktemp("page"), "--acts") as page:
        expected = {
            "alone": (4, False),
            "one": (3, True),  # counted together
            "other": (3, True),
            "none": (None, False),
            "early": (None, False),
        }
        assert lines(page) == expected
        assert page.json("queue", group="alone")["letters"] == 4
        page.act("redrive", group="alone", where="offset < 2", do=True)
        assert lines(page)["alone"] == (2, False)
        page.act("purge-letters", group="alone", do=True)
        assert lines(page)["alone"] == (0, False)
        assert page.json("queue", group="alone")["letters"] == 0
        page.act("purge-letters", group="one", do=True)
        assert lines(page)["other"] == (3, True), "what is done is remembered for each queue"
        assert lines(page)["one"][0] in (0, 1), "those of others count unless they lie between"


def test_of_many_queues_some_are_counted_in_each_look(
    server: SharegroupServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_LETTERS", 1)

    async def scenario() -> None:
        cluster = Cluster(server.bootstrap)
        async with Admin(cluster=cluster) as admin:
            counts = LetterCounts(admin, cluster)
            for group in ("alone", "other"):
                counts.named(group, "dlq.alone" if group == "alone" else "dlq.both")
            there = {one.name for one in await admin.list_topics()}
            known = []
            for _ in range(2):
                await counts.look(there)
                known.append({name: counts.of(name)["letters"] for name in ("alone", "other")})
            assert known[0]["other"] is None
            assert None not in known[1].values()
            counts.named("alone", None)
            assert counts.of("alone") == {"letters": None, "letters_shared": False}
            await counts.look(set())
            assert counts.of("other")["letters"] is None, "its topic is gone"
        await cluster.close()

    asyncio.run(scenario())


def test_a_topic_that_is_gone_meanwhile_does_not_hide_the_numbers_of_others(
    server: SharegroupServer,
) -> None:
    async def scenario() -> None:
        cluster = Cluster(server.bootstrap)
        async with Admin(cluster=cluster) as admin:
            counts = LetterCounts(admin, cluster)
            counts.named("alone", "dlq.alone")
            counts.named("lost", "dlq.gone")
            await counts.look({"dlq.alone", "dlq.gone"})
            assert counts.of("alone")["letters"] is not None
            assert counts.of("lost")["letters"] is None
        await cluster.close()

    asyncio.run(scenario())
