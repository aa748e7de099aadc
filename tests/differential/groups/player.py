"""Plays a script of consumer groups against one server and writes down every answer.

A join or a sync may wait for other members. Its answer is written down at the step that led to it,
under the name of the request: `m1.join.error_code=ok`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sharegroup.client.network.connection import Connection
from sharegroup.client.network.versions import CLIENT_VERSIONS
from sharegroup.model.errors import SharegroupError
from sharegroup.wire import apis
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.describe_groups import DescribeGroupsRequest
from sharegroup.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.differential.groups.rendering import Names, rendered
from tests.differential.groups.script import MEMBERS, GroupScript
from tests.differential.script import Step

TIMEOUT_MS = 60_000
QUIET_S = 0.12
"""A request that is not answered for so long waits for something."""
APPLY_S = 0.1
TRIES = 300
OF_GROUP, OF_TRANSACTION = 0, 1
COORDINATOR_LOADING = {14, 15, 16}
PARTITIONS = 3
MEMBER_ID_REQUIRED = 79
APIS: dict[apis.Api, tuple[int, int]] = {
    apis.JOIN_GROUP: (0, 9),
    apis.SYNC_GROUP: (0, 5),
    apis.HEARTBEAT: (0, 4),
    apis.LEAVE_GROUP: (0, 5),
    apis.OFFSET_COMMIT: (2, 10),
    apis.OFFSET_FETCH: (1, 10),
    apis.OFFSET_DELETE: (0, 0),
    apis.DESCRIBE_GROUPS: (0, 6),
    apis.CONSUMER_GROUP_HEARTBEAT: (0, 1),
    apis.CONSUMER_GROUP_DESCRIBE: (0, 1),
    apis.ADD_PARTITIONS_TO_TXN: (3, 3),
    apis.ADD_OFFSETS_TO_TXN: (3, 3),
    apis.END_TXN: (0, 5),
    apis.TXN_OFFSET_COMMIT: (0, 5),
    apis.INIT_PRODUCER_ID: (0, 5),
    apis.DESCRIBE_TRANSACTIONS: (0, 0),
    apis.LIST_TRANSACTIONS: (0, 1),
    apis.FETCH: (4, 12),
}


@dataclass
class Client:
    """One application, and what it knows of its membership."""

    name: str
    instance_id: str | None
    member_id: str = ""
    ids: int = 0
    generation: int = -1
    joined: Any = None
    synced: bool = False
    asked: tuple[str, str, str, str] = ("range", "topic", "consumer", "long")
    """What it has last joined with."""
    assignment: bytes = b""

    def forget(self) -> None:
        """It is no member any more."""
        self.member_id, self.generation, self.joined, self.synced = "", -1, None, False
        self.assignment = b""

    @property
    def leads(self) -> bool:
        return self.joined is not None and self.joined.leader == self.member_id


@dataclass
class Waiting:
    """A request that is under way."""

    client: Client
    verb: str
    answer: asyncio.Task[Any]
    told: dict[str, Any] = field(default_factory=dict)


class GroupPlayer:
    """One script on one server."""

    def __init__(self, port: int, script: GroupScript, name: str) -> None:
        self._port = port
        self.script = script
        self.group = name
        self.unknown = f"{name}-unknown"
        self.topic_id = UUID(int=0)
        self.names = Names()
        self.clients = [
            Client(f"m{number}", None if number < 2 else "i2") for number in range(MEMBERS)
        ]
        self.waiting: list[Waiting] = []
        self._idle: list[Connection] = []
        self._opened: list[Connection] = []

    async def play(self) -> list[str]:
        """What was seen, a line for each step."""
        try:
            await self._set_up()
            return [f"{step} -> {', '.join(await self.do(step))}" for step in self.script.steps]
        finally:
            for waiting in self.waiting:
                waiting.answer.cancel()
            await asyncio.gather(
                *(waiting.answer for waiting in self.waiting), return_exceptions=True
            )
            for connection in self._opened:
                connection.close()

    async def do(self, step: Step) -> list[str]:
        """One step, by the method of its verb; what was seen of it."""
        seen: list[str] = await getattr(self, step.verb)(self.clients[step.member], *step.values)
        return seen or ["nothing"]

    def pinned(self, api: apis.Api) -> int:
        """The version that this script speaks."""
        return self.script.versions.get(api.module, APIS.get(api, (0, 0))[1])

    async def _set_up(self) -> None:
        topic = CreatableTopic(self.group, PARTITIONS, 1)
        created = await self.ask(apis.CREATE_TOPICS, CreateTopicsRequest([topic]))
        self.topic_id = created.topics[0].topic_id
        self.names.texts[self.unknown] = "unknown"
        self.names.texts[self.group] = "group"
        self.names.topic_ids[self.topic_id] = "group"
        for kind in (OF_GROUP, OF_TRANSACTION):
            find = FindCoordinatorRequest(self.group, kind, [self.group])
            await self.ask(apis.FIND_COORDINATOR, find)
        await self._until_topic_is_known()

    async def _until_topic_is_known(self) -> None:
        """A new topic of Kafka's is not everywhere at once."""
        wanted = [FetchPartition(at, partition_max_bytes=1) for at in range(PARTITIONS)]
        request = FetchRequest(topics=[FetchTopic(self.group, partitions=wanted)])
        for _ in range(TRIES):
            answer = await self.ask(apis.FETCH, request)
            if not any(part.error_code for part in answer.responses[0].partitions):
                break
            await asyncio.sleep(APPLY_S)
        await asyncio.sleep(APPLY_S)

    # --- requests ---------------------------------------------------------------------------------

    async def _connection(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        spoken = {api: (self.pinned(api), self.pinned(api)) for api in APIS}
        for api, (first, last) in CLIENT_VERSIONS.items():
            version = self.script.versions.get(api.module)
            spoken.setdefault(api, (version, version) if version is not None else (first, last))
        connection = await Connection.open(
            "127.0.0.1", self._port, client_id="script", timeout_ms=TIMEOUT_MS, versions=spoken
        )
        self._opened.append(connection)
        return connection

    async def ask(self, api: apis.Api, request: Any) -> Any:
        """The answer; asked again while a coordinator is being loaded."""
        for _ in range(TRIES):
            connection = await self._connection()
            response = await connection.send(api, request, timeout_ms=TIMEOUT_MS)
            self._idle.append(connection)
            if getattr(response, "error_code", 0) not in COORDINATOR_LOADING:
                return response
            await asyncio.sleep(APPLY_S)
        raise AssertionError(f"{api.name}: the coordinator does not come up")

    async def see(self, api: apis.Api, request: Any, path: str = "") -> list[str]:
        """The answer as text."""
        return [
            path + line for line in rendered(await self.told(self.ask(api, request)), self.names)
        ]

    async def told(self, answer: Awaitable[Any]) -> Any:
        """An answer; a broken connection says so."""
        try:
            return await answer
        except SharegroupError as error:
            raise AssertionError(f"no answer: {error!r}") from error

    def begin(self, client: Client, verb: str, api: apis.Api, request: Any, **told: Any) -> None:
        """Send a request that may have to wait. An earlier one that still waits is given up, as by
        a client that has lost its connection."""
        for earlier in [one for one in self.waiting if one.client is client]:
            earlier.answer.cancel()
            self.waiting.remove(earlier)
        answer = asyncio.create_task(self.ask(api, request))
        self.waiting.append(Waiting(client, verb, answer, told))

    async def answered(self) -> list[Waiting]:
        """The requests that are answered by now."""
        done: list[Waiting] = []
        patient = False
        while self.waiting:
            ended, _ = await asyncio.wait(
                [one.answer for one in self.waiting],
                timeout=QUIET_S,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not ended:
                if patient:
                    break
                # A server that is busy has had its turn when it has answered this.
                await self.ask(apis.DESCRIBE_GROUPS, DescribeGroupsRequest([self.group]))
                patient = True
                continue
            patient = False
            done += [one for one in self.waiting if one.answer in ended]
            self.waiting = [one for one in self.waiting if one.answer not in ended]
        return sorted(done, key=lambda one: (one.client.name, one.verb))

    def name_member(self, client: Client, member_id: str) -> None:
        """Give an id that the server has chosen a name."""
        if member_id and member_id not in self.names.texts:
            client.ids += 1
            self.names.texts[member_id] = f"{client.name}#{client.ids}"
