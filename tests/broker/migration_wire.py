"""Classic consumers that let the broker or a leader assign, played by hand. Virtual time."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from sharegroup.groups.classic.embedded import decode_assignment, encode_assignment
from sharegroup.model.errors import NONE, IllegalGeneration, RebalanceInProgress
from tests.broker.classic_wire import CLASSIC, ClassicMember
from tests.broker.consumer_wire import beat, describe
from tests.broker.group_wire import World, assigned

Places = dict[str, list[int]]


def subscription(
    topics: Sequence[str], owned: Mapping[str, Sequence[int]], version: int = 1
) -> bytes:
    """A consumer's metadata, as Java's ConsumerProtocol writes it."""
    parts = [struct.pack(">hi", version, len(topics)), *map(_text, topics), struct.pack(">i", -1)]
    if version >= 1:
        parts.append(struct.pack(">i", len(owned)))
        for topic, held in owned.items():
            parts += [_text(topic), struct.pack(f">i{len(held)}i", len(held), *held)]
    if version >= 2:
        parts.append(struct.pack(">i", -1))
    if version >= 3:
        parts.append(struct.pack(">h", -1))
    return b"".join(parts)


def _text(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


class OldConsumer:
    """A cooperative consumer of the group CLASSIC with the classic protocol."""

    def __init__(self, member: ClassicMember, topics: Sequence[str] = ("foo",)) -> None:
        self.member = member
        self.topics = topics
        self.owned: Places = {}
        self.version = 1

    async def rejoin(self) -> None:
        """Join and sync; as the leader of a classic group give one partition to each in turn."""
        await self.join()
        assert await self.sync() == NONE

    async def join(self) -> None:
        self.member.metadata = subscription(self.topics, self.owned, self.version)
        await self.member.join(("cooperative-sticky",))

    async def sync(self, partitions: int = 4) -> int:
        """The error code; takes what it is given."""
        members = [one.member_id for one in self.member.joined.members]
        given = {
            one: encode_assignment({"foo": range(at, partitions, len(members))}, b"\0\1")
            for at, one in enumerate(members)
        }
        answer = await self.member.sync_once(given if self.member.leads else None)
        if answer.error_code == NONE:
            found = decode_assignment(bytes(answer.assignment)).partitions
            self.owned = {topic: list(held) for topic, held in found.items()}
        return int(answer.error_code)

    async def beat(self) -> bool:
        """One heartbeat, and a new join if that is asked for; whether it was."""
        code = await self.member.heartbeat()
        if code == IllegalGeneration.code:
            self.owned = {}
        if code in (RebalanceInProgress.code, IllegalGeneration.code):
            await self.rejoin()
        else:
            assert code == NONE, code
        return code != NONE


class NewConsumer:
    """A consumer of the group CLASSIC with the consumer protocol."""

    def __init__(self, world: World, name: str, instance_id: str | None = None) -> None:
        self.world = world
        self.name = name
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: Places = {}

    async def beat(self) -> bool:
        """One heartbeat that says everything; whether anything changed."""
        topic = self.world.broker.parts.topics.find("foo")
        assert topic is not None
        answer = await beat(
            self.world,
            self.name,
            self.epoch,
            group=CLASSIC,
            instance_id=self.instance_id,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=("foo",),
            owned={topic.topic_id: self.owned["foo"]} if self.epoch and self.owned else {},
        )
        before = self.epoch, self.owned
        given = assigned(answer)
        self.epoch = answer.member_epoch
        if given is not None:
            self.owned = {"foo": held} if (held := given.get(topic.topic_id)) else {}
        return (self.epoch, self.owned) != before

    async def leave(self, epoch: int = -1) -> None:
        answer = await beat(
            self.world, self.name, epoch, group=CLASSIC, instance_id=self.instance_id
        )
        assert answer.error_code == NONE
        self.epoch, self.owned = 0, {}


async def settle(*consumers: OldConsumer | NewConsumer) -> None:
    """All heartbeat until nothing changes any more. No partition ever has two owners."""
    for _ in range(20):
        changes = []
        for one in consumers:
            changes.append(await one.beat())
            check_apart(*consumers)
        if not any(changes):
            return
    raise AssertionError("the group does not come to rest")


def check_apart(*consumers: OldConsumer | NewConsumer) -> None:
    held = [p for one in consumers for p in one.owned.get("foo", [])]
    assert len(held) == len(set(held)), held


def shared(*consumers: OldConsumer | NewConsumer) -> list[int]:
    """All partitions that somebody has."""
    return sorted(p for one in consumers for p in one.owned.get("foo", []))


async def member_types(world: World) -> dict[str, int]:
    """0 for the classic protocol and 1 for the consumer protocol, by member id."""
    return {one.member_id: one.member_type for one in (await describe(world, CLASSIC)).members}
