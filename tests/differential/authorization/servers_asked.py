"""One server under many lists of ACLs: who asks, what holds, and what is seen.

Nobody is authenticated, on either server: all are User:ANONYMOUS. The administrator comes from
127.0.0.1 and may do everything, everybody else from 127.0.0.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple
from uuid import UUID

from sharegroup.broker.authorization.resources import SUPPORTED, Operation
from sharegroup.model.acl import with_a_meaning
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import request_frame, response_body
from sharegroup.wire.messages import create_topics, metadata, offset_commit
from sharegroup.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from sharegroup.wire.messages.create_acls import AclCreation, CreateAclsRequest
from sharegroup.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from sharegroup.wire.messages.describe_acls import DescribeAclsRequest
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

ADMIN_HOST, EVERYBODYS_HOST = "127.0.0.1", "127.0.0.2"
WHO = "User:ANONYMOUS"
SECONDS = 120
LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = 2, 3, 4, 5
NAMES = {TOPIC: "jobs", GROUP: "work", CLUSTER: "kafka-cluster", TRANSACTIONAL_ID: "payments"}
"""What the ACLs under test speak of; of topics and groups, all whose names begin so."""
READERS = "work-readers"
SUBSCRIBED = {READERS: ["jobs"], "work-sharers": ["jobs"], "work-fetchers": ["jobs", "secret"]}
"""The groups with a member each. All but the first one are share groups."""
MEMBER = "AAAAAAAAAAAAAAAAAAAAAQ"
NOT_YET = (14, 15, 16)
"""A coordinator of Kafka is being loaded."""
ASKED_FOR = frozenset(with_a_meaning(Operation)) - {Operation.TWO_PHASE_COMMIT}
KEPT = {
    "name",
    "topic",
    "topic_name",
    "group_id",
    "transactional_id",
    "resource_name",
    "authorized_operations",
    "topic_authorized_operations",
    "cluster_authorized_operations",
    "num_partitions",
}


class Acl(NamedTuple):
    """One of those under test, in the protocol's numbers."""

    resource_type: int
    name: str
    operation: int
    permission: int

    def creation(self, host: str = EVERYBODYS_HOST) -> AclCreation:
        pattern = PREFIXED if self.name in (NAMES[TOPIC], NAMES[GROUP]) else LITERAL
        return AclCreation(
            self.resource_type, self.name, pattern, WHO, host, self.operation, self.permission
        )


def everything() -> list[Acl]:
    """All rights."""
    names = dict.fromkeys(NAMES, "*") | {CLUSTER: NAMES[CLUSTER]}
    return [Acl(kind, name, Operation.ALL, ALLOW) for kind, name in names.items()]


def lists_of_acls() -> Iterator[tuple[str, list[Acl]]]:
    """Each list with its name: nothing, everything, each operation alone, all but each operation,
    and each operation on the topic with all rights on what is no topic."""
    each = {
        f"{operation.name} on {kind.name}": Acl(kind, NAMES[kind], operation, ALLOW)
        for kind in SUPPORTED
        if kind in NAMES
        for operation in SUPPORTED[kind]
        if operation in ASKED_FOR
    }
    yield "nothing", []
    yield "everything", everything()
    for name, acl in each.items():
        yield f"only {name}", [acl]
        yield f"all but {name}", [*everything(), acl._replace(permission=DENY)]
        if acl.resource_type == TOPIC:
            others = [every for every in everything() if every.resource_type != TOPIC]
            yield f"of topics only {name}", [*others, acl]


class Peer:
    """A connection from one address."""

    def __init__(self, port: int, host: str) -> None:
        self._port = port
        self._host = host
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, api: Api, version: int, request: Any) -> Any:
        """The answer; None if the server closes the connection instead."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(
                "127.0.0.1", self._port, local_addr=(self._host, 0), limit=1 << 20
            )
        reader, writer = self._streams
        writer.writelines(request_frame(api, version, 1, "asks", request))
        try:
            async with asyncio.timeout(SECONDS):
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.close()
            return None
        return decode(api.response, version, frame, response_body(api, version, frame)[1])

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Server:
    """One server: `ports` are all on which it must know the ACLs before it is asked."""

    def __init__(self, ports: Iterable[int]) -> None:
        self._ports = [Peer(port, ADMIN_HOST) for port in ports]
        self.admin = self._ports[0]
        self.everybody = Peer(self.admin._port, EVERYBODYS_HOST)
        self.ids: dict[str, UUID] = {}
        self._epochs: dict[str, int] = {}
        self._marks = 0

    async def prepare(self) -> None:
        """Make what is asked about."""
        await self.give_administrator_all_rights()
        await self.make_topics("jobs", "secret")
        for kind, key in ((0, "g"), (1, "t"), (2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0")):
            await self._find_coordinator(kind, key)
        await self._assigned()

    async def give_administrator_all_rights(self) -> None:
        """In one step: after the first ACL of a resource nobody else may do anything there."""
        await self._make([acl.creation(ADMIN_HOST) for acl in everything()])

    async def settle(self) -> None:
        """Wait until what was changed is known wherever it is asked for."""
        mark = AclCreation(TOPIC, f"mark-{self._marks}", LITERAL, WHO, EVERYBODYS_HOST, 3, DENY)
        self._marks += 1
        await self._make([mark])
        asked = DescribeAclsRequest(TOPIC, mark.resource_name, LITERAL, WHO, None, 1, 1)
        await self._until_counted(asked, 1)
        gone = DeleteAclsFilter(TOPIC, mark.resource_name, LITERAL, WHO, EVERYBODYS_HOST, 1, 1)
        await self.admin.ask(apis.DELETE_ACLS, 3, DeleteAclsRequest([gone]))
        await self._until_counted(asked, 0)

    async def _until_counted(self, asked: DescribeAclsRequest, count: int) -> None:
        for peer in self._ports:

            async def ready(peer: Peer = peer) -> bool:
                return await self._count(peer, asked) == count

            await _until(ready)

    async def _assigned(self) -> None:
        """Let a member join each group, and wait until it has its partitions."""
        epochs = dict.fromkeys(SUBSCRIBED, 0)
        async with asyncio.timeout(SECONDS):
            while epochs:
                for group, epoch in list(epochs.items()):
                    answer = await self._heartbeat(group, epoch)
                    assert answer.error_code in (0, *NOT_YET), answer
                    if answer.error_code == 0:
                        epochs[group] = answer.member_epoch
                        if answer.assignment and answer.assignment.topic_partitions:
                            self._epochs[group] = epochs.pop(group)
                await asyncio.sleep(0.1)

    async def _heartbeat(self, group: str, epoch: int) -> Any:
        topics = SUBSCRIBED[group] if epoch == 0 else None
        if group != READERS:
            share = ShareGroupHeartbeatRequest(group, MEMBER, epoch, None, topics)
            return await self.admin.ask(apis.SHARE_GROUP_HEARTBEAT, 1, share)
        owned = [] if epoch == 0 else None
        consumer = ConsumerGroupHeartbeatRequest(
            group,
            MEMBER,
            epoch,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=topics,
            topic_partitions=owned,
        )
        return await self.admin.ask(apis.CONSUMER_GROUP_HEARTBEAT, 1, consumer)

    async def _find_coordinator(self, kind: int, key: str) -> None:
        """Kafka makes its internal topics when somebody asks for a coordinator."""
        asked = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])

        async def ready() -> bool:
            found = await self.admin.ask(apis.FIND_COORDINATOR, 6, asked)
            return not found.coordinators[0].error_code

        await _until(ready)

    async def make_topics(self, *names: str) -> None:
        """Make those that do not exist, and wait until they can be asked about."""
        topics = [create_topics.CreatableTopic(name, 1, 1) for name in names]
        await self.admin.ask(
            apis.CREATE_TOPICS, 7, create_topics.CreateTopicsRequest(topics, 10_000)
        )
        wanted = metadata.MetadataRequest([metadata.MetadataRequestTopic(name=n) for n in names])
        wanted.allow_auto_topic_creation = False
        async with asyncio.timeout(SECONDS):
            while True:
                found = (await self.admin.ask(apis.METADATA, 12, wanted)).topics
                if all(t.error_code == 0 and t.partitions[0].leader_id >= 0 for t in found):
                    break
                await asyncio.sleep(0.02)
        self.ids |= {topic.name: topic.topic_id for topic in found}

    async def renew(self) -> None:
        """Make again what a request may have deleted."""
        await self.make_topics("jobs-doomed", "jobs-doomed-too")
        for group, epoch in self._epochs.items():
            assert (await self._heartbeat(group, epoch)).error_code == 0
        parts = [offset_commit.OffsetCommitRequestPartition(0, 1, -1, "")]
        topics = [
            offset_commit.OffsetCommitRequestTopic(name, UUID(int=0), parts)
            for name in ("jobs", "secret")
        ]
        async with asyncio.timeout(SECONDS):
            while True:
                done = await self.admin.ask(
                    apis.OFFSET_COMMIT,
                    9,
                    offset_commit.OffsetCommitRequest("workers", topics=topics),
                )
                if all(p.error_code == 0 for t in done.topics for p in t.partitions):
                    return
                await asyncio.sleep(0.05)

    async def set_acls(self, acls: Iterable[Acl]) -> None:
        """Let exactly these hold for everybody."""
        wanted = [acl.creation() for acl in acls]
        every = DeleteAclsFilter(1, None, 1, None, EVERYBODYS_HOST, 1, 1)
        await self.admin.ask(apis.DELETE_ACLS, 3, DeleteAclsRequest([every]))
        if wanted:
            await self._make(wanted)
        asked = DescribeAclsRequest(1, None, 1, None, EVERYBODYS_HOST, 1, 1)
        await self._until_counted(asked, len(wanted))

    async def _make(self, creations: list[AclCreation]) -> None:
        made = await self.admin.ask(apis.CREATE_ACLS, 3, CreateAclsRequest(creations))
        assert [each.error_code for each in made.results] == [0] * len(creations), made

    @staticmethod
    async def _count(peer: Peer, asked: DescribeAclsRequest) -> int:
        found = await peer.ask(apis.DESCRIBE_ACLS, 3, asked)
        return sum(len(resource.acls) for resource in found.resources)

    def close(self) -> None:
        for peer in (*self._ports, self.everybody):
            peer.close()


async def _until(ready: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again, with a pause, at most SECONDS."""
    async with asyncio.timeout(SECONDS):
        while True:
            if await ready():
                return
            await asyncio.sleep(0.005)


def outline(value: Any) -> Any:
    """Error codes and names of an answer, in an order of their own; what has neither is left out,
    such as acquired records."""
    if isinstance(value, list | tuple):
        return sorted((outline(each) for each in value), key=repr)
    if not is_dataclass(value):
        return value
    found = {}
    for field in fields(value):
        inner = getattr(value, field.name)
        if field.name.endswith("error_code") or field.name in KEPT:
            found[field.name] = inner
        elif field.name == "configs":
            found[field.name] = bool(inner)
        elif isinstance(inner, list | tuple) and any(is_dataclass(each) for each in inner):
            told = outline([each for each in inner if not _is_internal(each)])
            if any(told):
                found[field.name] = [each for each in told if each]
    return found


def _is_internal(value: Any) -> bool:
    name = getattr(value, "name", "") or getattr(value, "resource_name", "")
    return str(name).startswith("__")
