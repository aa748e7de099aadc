"""A broker with an ACL file and two listeners: one for everybody, one for its administrator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from sharegroup.broker.authorization.acl_file import COLUMNS
from sharegroup.broker.network.api_table import API_TABLE
from sharegroup.broker.server import Broker
from sharegroup.client.network.connection import Connection
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import request_frame, response_body
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.by_hand import TIMEOUT_MS, connect, produce
from tests.broker.running import running

ADMIN = "User:admin"
TWO_LISTENERS = (
    "listeners=PLAINTEXT://127.0.0.1:0,ADMIN://127.0.0.1:0",
    "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ADMIN:PLAINTEXT",
    f"listener.principal.map=ADMIN:{ADMIN}",
    f"super.users={ADMIN}",
)
GROUP = 32


def write_acls(path: Path, acls: Iterable[str]) -> Path:
    path.write_text("\n".join([",".join(COLUMNS), *acls]) + "\n")
    return path


@dataclass
class Clients:
    """``anybody`` is User:ANONYMOUS, ``admin`` may do everything; ``jobs`` holds 3 records."""

    broker: Broker
    port: int
    anybody: Connection
    admin: Connection
    topic_id: UUID

    async def ask(self, api: apis.Api, request: Any) -> Any:
        """As anybody, at the newest version served, on a connection of its own."""
        version = API_TABLE[api.key].versions.last
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.writelines(request_frame(api, version, 1, "by-hand", request))
            size = int.from_bytes(await reader.readexactly(4), "big")
            frame = await reader.readexactly(size)
        finally:
            writer.close()
            await writer.wait_closed()
        return decode(api.response, version, frame, response_body(api, version, frame)[1])

    async def as_admin(self, api: apis.Api, request: Any) -> Any:
        return await self.admin.send(api, request, timeout_ms=TIMEOUT_MS)


Scenario = Callable[[Clients], Coroutine[Any, Any, None]]


def with_acls(folder: Path, acls: Iterable[str], scenario: Scenario) -> None:
    """Run ``scenario`` under these ACLs, within minutes."""

    async def main() -> None:
        file = write_acls(folder / "acls.csv", acls)
        options = (*TWO_LISTENERS, f"authorizer.acl.file={file}")
        async with asyncio.timeout(240), running(folder, *options) as (broker, port):
            _, admin_port = await broker.listen("127.0.0.1", 0, "ADMIN")
            admin = await connect(admin_port)
            clients = Clients(broker, port, await connect(port), admin, await _jobs(broker, admin))
            await scenario(clients)

    asyncio.run(main())


async def _jobs(broker: Broker, admin: Connection) -> UUID:
    topics = [CreatableTopic("jobs", 1, -1), CreatableTopic("secret", 1, -1)]
    await admin.send(apis.CREATE_TOPICS, CreateTopicsRequest(topics), timeout_ms=TIMEOUT_MS)
    earliest = [AlterableConfig("share.auto.offset.reset", 0, "earliest")]
    alter = IncrementalAlterConfigsRequest([AlterConfigsResource(GROUP, "workers", earliest)])
    await admin.send(apis.INCREMENTAL_ALTER_CONFIGS, alter, timeout_ms=TIMEOUT_MS)
    found = broker.parts.topics.find("jobs")
    assert found is not None
    batch = encode_batch([(b"k", b"v")] * 3, timestamp_ms=0)
    assert await produce(admin, found.topic_id, batch) == 0
    return found.topic_id
