"""The rights of somebody who redrives dead letters: each one is needed, no other is, and without
one of them nothing changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from sharegroup.client import (
    Acl,
    AclFilter,
    AclOperation,
    AclPattern,
    AclResource,
    Admin,
    Producer,
)
from sharegroup.model.errors import KafkaError
from tests.broker.authorization.clients import ADMIN, write_acls
from tests.client.dead_letters import said
from tests.client.working import WAIT_S
from tests.servers.process import HOST, free_port
from tests.servers.sharegroup_server import SharegroupServer

GROUP, TOPIC, DEAD, DONE = "workers", "jobs", "dlq.jobs", "sharegroup.dead-letters.done"


def right(
    operation: AclOperation,
    resource: AclResource,
    name: str,
    pattern: AclPattern = AclPattern.LITERAL,
) -> Acl:
    return Acl(
        principal="User:ANONYMOUS",
        operation=operation,
        resource=resource,
        name=name,
        pattern=pattern,
    )


RIGHTS = (
    right(AclOperation.DESCRIBE_CONFIGS, AclResource.GROUP, GROUP),
    right(AclOperation.READ, AclResource.TOPIC, DEAD),
    right(AclOperation.WRITE, AclResource.TOPIC, TOPIC),
    right(AclOperation.WRITE, AclResource.TOPIC, DONE),
    right(AclOperation.READ, AclResource.TOPIC, DONE),
    right(
        AclOperation.WRITE,
        AclResource.TRANSACTIONAL_ID,
        f"{GROUP}.dead-letters.",
        AclPattern.PREFIXED,
    ),
)
"""As docs/queues.md lists them, without CREATE of the topic of the marks, which one redrive needs
once, and READ of the source topic, for letters without a copy."""


async def redriven(admin: Admin, *, dry_run: bool = False) -> int:
    return (await admin.redrive_dead_letters(GROUP, dry_run=dry_run)).done


async def write_letter(bootstrap: str, number: int) -> None:
    async with Producer(bootstrap) as producer:
        headers = said(GROUP, TOPIC, 0, number, timestamp=1_000)
        await producer.send(DEAD, "a job", headers=headers)


async def check_rights(admin: Admin, anybody: Admin, administration: str) -> None:
    await admin.create_topics(TOPIC, DEAD, DONE)
    await admin.alter_configs("group", GROUP, {"errors.deadletterqueue.topic.name": DEAD})
    await admin.create_acls(*RIGHTS)
    for number, missing in enumerate(RIGHTS):
        await write_letter(administration, number)
        await admin.delete_acls(
            AclFilter(operation=missing.operation, resource=missing.resource, name=missing.name)
        )
        with pytest.raises(KafkaError, match=r"not authorised|AUTHORIZATION"):
            await redriven(anybody)
        assert await redriven(admin, dry_run=True) == 1, missing
        await admin.create_acls(missing)
        assert await redriven(anybody) == 1, missing


@pytest.mark.process
def test_each_right_is_needed(tmp_path: Path) -> None:
    administration = f"{HOST}:{free_port()}"
    settings = (
        f"listeners=PLAINTEXT://{HOST}:0,ADMIN://{administration}",
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ADMIN:PLAINTEXT",
        f"listener.principal.map=ADMIN:{ADMIN}",
        f"super.users={ADMIN}",
        "authorizer.class.name=StandardAuthorizer",
        f"authorizer.acl.file={write_acls(tmp_path / 'acls.csv', [])}",
    )

    async def scenario(bootstrap: str) -> None:
        async with asyncio.timeout(WAIT_S):
            async with Admin(administration) as admin, Admin(bootstrap) as anybody:
                await check_rights(admin, anybody, administration)

    with SharegroupServer(tmp_path, *settings) as server:
        asyncio.run(scenario(server.bootstrap))
