"""Who sees dead letters, and how many: a viewer also needs to know which of them are done."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup import Admin, Producer
from sharegroup.client import Acl, AclFilter, AclOperation, AclResource
from sharegroup.client.core.done_letters import DONE_TOPIC
from sharegroup.model.ids import TopicPartition
from tests.client.dead_letters import said
from tests.console.running import Console, console
from tests.console.secured import PASSWORDS, SecuredServer

pytestmark = pytest.mark.process
JOBS, DEAD, GROUP = "jobs", "dlq.jobs", "workers"


def right(operation: AclOperation, resource: AclResource, name: str) -> Acl:
    return Acl(principal="User:bob", operation=operation, resource=resource, name=name)


NEEDED = (
    right(AclOperation.DESCRIBE, AclResource.GROUP, GROUP),
    right(AclOperation.DESCRIBE_CONFIGS, AclResource.GROUP, GROUP),
    right(AclOperation.DESCRIBE, AclResource.TOPIC, JOBS),
    right(AclOperation.READ, AclResource.TOPIC, DEAD),
)
DONE = right(AclOperation.READ, AclResource.TOPIC, DONE_TOPIC)


def counted(page: Console) -> list[int | None]:
    """In the list, and on the queue's own page."""
    [line] = page.json("queues")["queues"]
    return [line["letters"], page.json("queue", group=GROUP)["letters"]]


def test_whoever_may_not_see_what_is_done_is_told_so(tmp_path: Path) -> None:
    async def prepare() -> None:
        async with Admin(server.bootstrap) as admin, Producer(server.bootstrap) as producer:
            await admin.create_topics(JOBS, DEAD)
            await admin.alter_share_group_offsets(GROUP, {TopicPartition(JOBS, 0): 0})
            named = {"errors.deadletterqueue.topic.name": DEAD}
            await admin.alter_configs("group", GROUP, named)
            for at in range(3):
                headers = said(GROUP, JOBS, 0, at, timestamp=1_000, cause="rejected")
                await producer.send(DEAD, f"{at}", headers=headers)
            await admin.create_acls(*NEEDED)

    async def may() -> None:
        async with Admin(server.bootstrap) as admin:
            await admin.create_acls(DONE)

    async def purge() -> None:
        async with Admin(server.bootstrap) as admin:
            await admin.purge_dead_letters(GROUP, where="offset == 1")
            await admin.delete_acls(AclFilter(name=DONE_TOPIC))

    with (
        SecuredServer(tmp_path) as server,
        console(server.secured, tmp_path, "--login") as page,
    ):
        asyncio.run(prepare())
        page.log_in("bob", PASSWORDS["bob"])
        assert counted(page) == [None, None]
        refused = page.json("dead", status=403, group=GROUP)["error"]
        assert "needs READ on it, too, also before there is one" in refused
        assert DONE_TOPIC in refused

        asyncio.run(may())
        assert counted(page) == [3, 3]
        assert len(page.json("dead", group=GROUP)["letters"]) == 3

        asyncio.run(purge())
        assert counted(page) == [None, None], "one of the three is done, and bob may not know it"
        asyncio.run(may())
        assert counted(page) == [2, 2]
        assert len(page.json("dead", group=GROUP)["letters"]) == 2
