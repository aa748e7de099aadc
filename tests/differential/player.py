"""Plays a script against one server and writes down what a client can see.

Names differ from run to run, epochs count what the coordinator did in between: neither is written.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from itertools import groupby
from typing import Any
from uuid import UUID

from sharegroup.client.network.connection import Connection
from sharegroup.model.errors import ERRORS
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from sharegroup.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from sharegroup.wire.messages.delete_groups import DeleteGroupsRequest
from sharegroup.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from sharegroup.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from sharegroup.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from sharegroup.wire.messages.find_coordinator import FindCoordinatorRequest
from sharegroup.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from sharegroup.wire.messages.share_group_describe import ShareGroupDescribeRequest
from sharegroup.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.differential import acknowledgements
from tests.differential.script import EVERYTHING, MEMBERS, Script, Step
from tests.differential.wire_member import (
    EMPTY_WAITS_MS,
    RETRY_S,
    TIMEOUT_MS,
    WireMember,
    connect,
)

SETTLE_S = 100.0
APPLY_S = 0.1
LOCK_MS = 1000
EXPIRE_S = 1.5
GROUP_RESOURCE = 32
# kind -> records at most, renewing, partition, answers, first epoch
BAD_FETCHES = {
    "unknown partition": (0, False, 77, [], False),
    "answers in the first epoch": (0, False, 0, [(0, 0, [1])], True),
    "renewing with a limit": (5, True, 0, [], False),
    "answers to an unknown partition": (0, False, 77, [(0, 0, [1])], False),
}
CONFIGS = {
    "share.delivery.count.limit": ("2", "3", "5", "10", "1", "many"),
    "share.renew.acknowledge.enable": ("true", "false"),
    "share.partition.max.record.locks": ("2000", "3000", "5"),
    "share.no.such.setting": ("1",),
}


def error_name(code: int) -> str:
    """Kafka's name of an error code."""
    return "ok" if code == 0 else ERRORS[code].name if code in ERRORS else str(code)


class Player:
    """One script on one server."""

    def __init__(self, port: int, script: Script, name: str) -> None:
        self._port = port
        self._script = script
        self._name = name
        self._admin: Connection | None = None
        self._topic_id = UUID(int=0)
        self._members: list[WireMember] = []
        self._ends = [0] * script.partitions
        self._begins: list[list[int]] = [[] for _ in self._ends]
        self._deleted: set[int] = set()
        self._fetched = False

    async def play(self) -> list[str]:
        """What was seen, a line for each step."""
        try:
            await self._set_up()
            return [f"{step} -> {await self._do(step)}" for step in self._script.steps]
        finally:
            for member in self._members:
                member.disconnect()
            if self._admin is not None:
                self._admin.close()

    async def _do(self, step: Step) -> str:
        seen: str = await getattr(self, step.verb)(self._members[step.member], *step.values)
        return seen

    async def _set_up(self) -> None:
        self._admin = await connect(self._port, "script")
        topic = CreatableTopic(self._name, self._script.partitions, 1)
        created = await self._ask(apis.CREATE_TOPICS, CreateTopicsRequest([topic]))
        self._topic_id = created.topics[0].topic_id
        await self._ask(apis.FIND_COORDINATOR, FindCoordinatorRequest(self._name, 0, [self._name]))
        await asyncio.sleep(APPLY_S)  # a new topic of Kafka's is not everywhere at once
        for name, value in self._script.configs.items():
            assert await self._set(name, value) == "ok"
        self._members = [
            WireMember(
                *(self._port, self._name, f"member-{number}", self._topic_id),
                partitions=self._script.partitions,
            )
            for number in range(MEMBERS)
        ]

    async def _ask(self, api: apis.Api, request: Any) -> Any:
        assert self._admin is not None
        return await self._admin.send(api, request, timeout_ms=TIMEOUT_MS)

    async def _set(self, name: str, value: str) -> str:
        """One setting of the group; Kafka applies it a moment after it has answered."""
        config = AlterableConfig(name, 0, value)
        resource = AlterConfigsResource(GROUP_RESOURCE, self._name, [config])
        request = IncrementalAlterConfigsRequest([resource])
        [answer] = (await self._ask(apis.INCREMENTAL_ALTER_CONFIGS, request)).responses
        await asyncio.sleep(APPLY_S)
        return error_name(answer.error_code)

    # --- records ----------------------------------------------------------------------------------

    async def produce(self, _: WireMember, partition: int, records: int, seed: int) -> str:
        """One to three batches."""
        rng = random.Random(seed)
        for _batch in range(rng.choice((1, 1, 2, 3))):
            count = max(1, rng.randrange(records + 1))
            batch = encode_batch([(None, b"v")] * count, timestamp_ms=0)
            part = PartitionProduceData(partition, batch)
            request = ProduceRequest(None, -1, 30_000, [TopicProduceData(self._name, None, [part])])
            response = await self._ask(apis.PRODUCE, request)
            [answer] = response.responses[0].partition_responses
            assert answer.error_code == 0, answer
            self._begins[partition].append(answer.base_offset)
            self._ends[partition] = answer.base_offset + count
        return f"end {self._ends[partition]}"

    async def poll(self, member: WireMember, records: int, batch_size: int, mode: int) -> str:
        """Fetch until there is something; without a limit, until there is nothing more."""
        await member.open_session()
        self._fetched = True
        seen: list[tuple[int, int, int]] = []
        empty = 0
        while empty < len(EMPTY_WAITS_MS):
            response = await member.fetch(records, batch_size, mode, EMPTY_WAITS_MS[empty])
            if response.error_code:
                return error_name(response.error_code)
            new = list(acquired(response))
            errors = list(fetch_errors(response))
            if errors:
                return ", ".join(errors)
            seen += new
            empty = 0 if new else empty + 1
            if new and records != EVERYTHING:
                break
        return runs(seen)

    async def acknowledge(self, member: WireMember, way: str, seed: int) -> str:
        """Answer some of what is held, by a ShareAcknowledge or on a ShareFetch."""
        await member.open_session()
        choice = acknowledgements.chosen(member.held, random.Random(seed))
        send = member.acknowledge if way == "acknowledge" else member.acknowledge_by_fetch
        response = await send(choice.batches, renew=choice.renew)
        if response.error_code:
            return error_name(response.error_code)
        codes = acknowledge_codes(response)
        for partition, code in codes.items():
            if code == 0:
                choice.settle(member.held, partition)
        return listed(codes) + " after a deletion" * bool(self._deleted & codes.keys())

    async def bad_acknowledge(self, member: WireMember, seed: int) -> str:
        """An answer that no client should give."""
        await member.open_session()
        kind, batches = acknowledgements.bad(member.held, self._ends, random.Random(seed))
        response = await member.acknowledge(batches)
        if self._deleted & batches.keys():
            kind += " after a deletion"
        if response.error_code:
            return f"{kind}: {error_name(response.error_code)}"
        return f"{kind}: {listed(acknowledge_codes(response))}"

    async def bad_fetch(self, member: WireMember, seed: int) -> str:
        """A fetch that no client should send; nothing is acquired by any of them. What it has put
        into the session goes with the session."""
        rng = random.Random(seed)
        kind = rng.choice(list(BAD_FETCHES))
        if kind != "answers in the first epoch":
            await member.open_session()
        response = await member.bad_fetch(*BAD_FETCHES[kind])
        if response.error_code:
            return f"{kind}: {error_name(response.error_code)}"
        await self.close_session(member)
        errors = list(fetch_errors(response))
        return f"{kind}: {', '.join(errors) or 'nothing'}, {listed(acknowledge_codes(response))}"

    async def wrong_epoch(self, member: WireMember, seed: int) -> str:
        """A session epoch that is not the next one."""
        await member.open_session()
        rng = random.Random(seed)
        shift = rng.choice((-1, 1, 7)) if member.session_epoch > 1 else 7
        if rng.random() < 0.5:
            response = await member.fetch(5, 500, 0, 0, epoch=member.session_epoch + shift)
        else:
            response = await member.acknowledge({}, epoch=rng.choice((0, member.session_epoch + 5)))
        return error_name(response.error_code)

    # --- sessions and membership ------------------------------------------------------------------

    async def close_session(self, member: WireMember) -> str:
        """The final epoch; what is held comes back, in Kafka a moment after the answer."""
        response = await member.acknowledge({}, epoch=-1)
        member.forget_session()
        if response.error_code == 0:
            await asyncio.sleep(APPLY_S)
        return error_name(response.error_code)

    async def disconnect(self, member: WireMember) -> str:
        """The connection breaks. The broker notices when it does: nobody can ask whether it has."""
        member.disconnect()
        await asyncio.sleep(2 * APPLY_S)
        return "gone"

    async def join(self, member: WireMember) -> str:
        """Heartbeats until there is an assignment."""
        response = await self._heartbeat(member, 0, [self._name])
        deadline = asyncio.get_running_loop().time() + SETTLE_S
        while response.error_code == 0 and not assigned(response):
            assert asyncio.get_running_loop().time() < deadline, "no assignment"
            await asyncio.sleep(RETRY_S)
            response = await self._heartbeat(member, member.member_epoch, None)
        return error_name(response.error_code)

    async def leave(self, member: WireMember) -> str:
        """Close the session, then leave the group."""
        closed = await self.close_session(member)
        if not member.member_epoch:
            return closed
        response = await self._heartbeat(member, -1, None)
        member.member_epoch = 0
        return f"{closed}, {error_name(response.error_code)}"

    async def wrong_heartbeat(self, member: WireMember, seed: int) -> str:
        """A member epoch from nowhere, or an unknown member."""
        rng = random.Random(seed)
        epoch = rng.choice((member.member_epoch + 1_000, -1, -5, 0))
        stranger = WireMember(self._port, self._name, "stranger", self._topic_id, 1)
        try:
            response = await self._heartbeat(
                stranger if rng.random() < 0.5 or epoch in (-1, 0) else member,
                epoch,
                [] if epoch == 0 else None,
            )
        finally:
            stranger.disconnect()
        return error_name(response.error_code)

    async def _heartbeat(self, member: WireMember, epoch: int, topics: list[str] | None) -> Any:
        request = ShareGroupHeartbeatRequest(self._name, member.member_id, epoch, None, topics)
        response = await member.send(apis.SHARE_GROUP_HEARTBEAT, request)
        if response.error_code == 0 and epoch >= 0:
            member.member_epoch = response.member_epoch
        return response

    # --- administration ---------------------------------------------------------------------------

    async def describe_group(self, _: WireMember) -> str:
        """State and assignments, once every member has heard of the newest."""
        deadline = asyncio.get_running_loop().time() + SETTLE_S
        while True:
            request = ShareGroupDescribeRequest([self._name])
            [group] = (await self._ask(apis.SHARE_GROUP_DESCRIBE, request)).groups
            if group.error_code:
                return error_name(group.error_code)
            epochs = {group.group_epoch, group.assignment_epoch}
            epochs |= {one.member_epoch for one in group.members}
            told = all(one.assignment.topic_partitions for one in group.members)
            if not group.members or (told and len(epochs) == 1):
                return described(group)
            assert asyncio.get_running_loop().time() < deadline, f"not settled: {group}"
            for member in self._members:
                if member.member_epoch:
                    await self._heartbeat(member, member.member_epoch, None)
            await asyncio.sleep(RETRY_S)

    async def describe_offsets(self, _: WireMember) -> str:
        """Start offset and lag of each partition."""
        topic = DescribeShareGroupOffsetsRequestTopic(
            self._name, list(range(self._script.partitions))
        )
        request = DescribeShareGroupOffsetsRequest(
            [DescribeShareGroupOffsetsRequestGroup(self._name, [topic])]
        )
        [group] = (await self._ask(apis.DESCRIBE_SHARE_GROUP_OFFSETS, request)).groups
        if group.error_code:
            return error_name(group.error_code)
        parts = sorted(group.topics[0].partitions, key=lambda part: part.partition_index)
        return ", ".join(
            f"p{part.partition_index} start {part.start_offset} lag {part.lag} "
            f"{error_name(part.error_code)}"
            f"{' after a deletion' * (part.partition_index in self._deleted)}"
            for part in parts
        )

    async def delete_records(self, _: WireMember, partition: int, seed: int) -> str:
        """Move the log start to where a batch begins or the log ends."""
        before = random.Random(seed).choice(self._begins[partition] + [self._ends[partition]])
        self._deleted.add(partition)
        part = DeleteRecordsPartition(partition, before)
        request = DeleteRecordsRequest([DeleteRecordsTopic(self._name, [part])], 30_000)
        [topic] = (await self._ask(apis.DELETE_RECORDS, request)).topics
        return error_name(topic.partitions[0].error_code)

    async def alter_offsets(self, _: WireMember, partition: int, seed: int) -> str:
        """Put the group somewhere else, which only an empty group allows."""
        if self._fetched and not any(member.member_epoch for member in self._members):
            return "not asked"  # Kafka's leader would go on with what it had before
        offset = random.Random(seed).randrange(self._ends[partition] + 1)
        part = AlterShareGroupOffsetsRequestPartition(partition, offset)
        request = AlterShareGroupOffsetsRequest(
            self._name, [AlterShareGroupOffsetsRequestTopic(self._name, [part])]
        )
        response = await self._ask(apis.ALTER_SHARE_GROUP_OFFSETS, request)
        if response.error_code:
            return error_name(response.error_code)
        return error_name(response.responses[0].partitions[0].error_code)

    async def delete_offsets(self, _: WireMember) -> str:
        """Forget the topic; only an empty group allows it."""
        topic = DeleteShareGroupOffsetsRequestTopic(self._name)
        request = DeleteShareGroupOffsetsRequest(self._name, [topic])
        response = await self._ask(apis.DELETE_SHARE_GROUP_OFFSETS, request)
        if response.error_code:
            return error_name(response.error_code)
        return error_name(response.responses[0].error_code)

    async def delete_group(self, _: WireMember) -> str:
        """Delete the group, which must be empty."""
        response = await self._ask(apis.DELETE_GROUPS, DeleteGroupsRequest([self._name]))
        return error_name(response.results[0].error_code)

    async def configure(self, _: WireMember, seed: int) -> str:
        """Change a setting of the group, perhaps to what it cannot be."""
        rng = random.Random(seed)
        name = rng.choice(list(CONFIGS))
        value = rng.choice(CONFIGS[name])
        return f"{name}={value}: {await self._set(name, value)}"

    async def expire(self, member: WireMember) -> str:
        """Acquire with a short lock, let it run out, and answer too late."""
        await self._set("share.record.lock.duration.ms", str(LOCK_MS))
        polled = await self.poll(member, EVERYTHING, 500, 0)
        await asyncio.sleep(EXPIRE_S)
        late = await self.acknowledge(member, "acknowledge", 1) if polled != "nothing" else ""
        await self._set("share.record.lock.duration.ms", "30000")
        member.held = {p: {} for p in member.held}
        return f"{polled}, then {late}"


def assigned(response: Any) -> bool:
    """Whether a heartbeat has brought partitions; Kafka first brings an empty assignment."""
    return response.assignment is not None and bool(response.assignment.topic_partitions)


def acquired(response: Any) -> Iterable[tuple[int, int, int]]:
    """(partition, offset, delivery count) of each acquired record."""
    for topic in response.responses:
        for part in topic.partitions:
            for run in part.acquired_records:
                for offset in range(run.first_offset, run.last_offset + 1):
                    yield part.partition_index, offset, run.delivery_count


def fetch_errors(response: Any) -> Iterable[str]:
    """What partitions of a fetch complain of."""
    for topic in response.responses:
        for part in topic.partitions:
            if part.error_code:
                yield f"p{part.partition_index} {error_name(part.error_code)}"


def acknowledge_codes(response: Any) -> dict[int, int]:
    """The outcome of acknowledgements by partition, whichever response brought it."""
    return {
        part.partition_index: getattr(part, "acknowledge_error_code", part.error_code)
        for topic in response.responses
        for part in topic.partitions
    }


def listed(codes: dict[int, int]) -> str:
    """Outcomes in the order of partitions."""
    return ", ".join(f"p{p} {error_name(code)}" for p, code in sorted(codes.items())) or "nothing"


def runs(records: list[tuple[int, int, int]]) -> str:
    """Records as ranges of equal delivery count, however the broker had cut them."""
    parts = []
    for (partition, count, _), run in groupby(
        enumerate(sorted(records)), lambda item: (item[1][0], item[1][2], item[1][1] - item[0])
    ):
        offsets = [offset for _, (_, offset, _) in run]
        parts.append(f"p{partition} {offsets[0]}-{offsets[-1]}x{count}")
    return ", ".join(parts) or "nothing"


def described(group: Any) -> str:
    """A group without what differs from run to run: who has which partitions hangs, in Kafka, on
    hashes of the topic's id, so it is how many each member has, and whether all are taken."""
    shares = [
        {p for topic in one.assignment.topic_partitions for p in topic.partitions}
        for one in group.members
    ]
    members = sorted(one.member_id for one in group.members)
    taken = sorted(set().union(*shares))
    sizes = sorted(map(len, shares))
    return f"{group.group_state} {group.assignor_name} {members} share {taken} as {sizes}"
