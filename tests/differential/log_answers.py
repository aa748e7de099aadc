"""Scenarios about logs for :mod:`tests.differential.test_answers`: what is refused, and what is
told of times and epochs."""

from __future__ import annotations

from typing import Any

from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages import create_topics as creating
from sharegroup.wire.messages import delete_records as deleting
from sharegroup.wire.messages import list_offsets as finding
from sharegroup.wire.messages import produce as producing
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest
from tests.broker.transaction_wire import Peer

LATEST, EARLIEST = -1, -2
POLICIES = "compact", "compact,delete", "delete"


async def create(peer: Peer, name: str, configs: dict[str, str | None]) -> tuple[int, str | None]:
    entries = [creating.CreatableTopicConfig(key, value) for key, value in configs.items()]
    topic = creating.CreatableTopic(name, 1, -1, configs=entries)
    [made] = (await peer.ask(apis.CREATE_TOPICS, 7, creating.CreateTopicsRequest([topic]))).topics
    while made.error_code == 0 and (await offset(peer, name, LATEST))[0]:
        continue  # Apache Kafka answers before the topic takes records
    return made.error_code, made.error_message


async def offset(peer: Peer, name: str, at: int, epoch: int = -1) -> tuple[int, int]:
    part = finding.ListOffsetsPartition(0, epoch, at)
    request = finding.ListOffsetsRequest(-1, 0, [finding.ListOffsetsTopic(name, [part])])
    [told] = (await peer.ask(apis.LIST_OFFSETS, 7, request)).topics[0].partitions
    return told.error_code, told.offset


async def write(peer: Peer, name: str, batch: bytes) -> Any:
    data = [producing.TopicProduceData(name=name, partition_data=[_data(batch)])]
    answer = await peer.ask(apis.PRODUCE, 9, producing.ProduceRequest(None, -1, 10_000, data))
    [told] = answer.responses[0].partition_responses
    assert told.error_code == 0
    return told


def _data(batch: bytes) -> producing.PartitionProduceData:
    return producing.PartitionProduceData(0, batch)


async def deleted_records_by_policy(port: int) -> object:
    """A table's records stay: they are the last of their keys."""
    peer = await Peer.connect(port)
    said: list[object] = []
    for policy in POLICIES:
        name = policy.replace(",", "-")
        await create(peer, name, {"cleanup.policy": policy})
        keyed = [(b"%d" % key, b"v") for key in range(3)]
        await write(peer, name, encode_batch(keyed, timestamp_ms=0))
        for before in (2, LATEST):
            part = deleting.DeleteRecordsPartition(0, before)
            topics = [deleting.DeleteRecordsTopic(name, [part])]
            request = deleting.DeleteRecordsRequest(topics, 10_000)
            [told] = (await peer.ask(apis.DELETE_RECORDS, 2, request)).topics[0].partitions
            said.append((policy, before, told.error_code, told.low_watermark))
            said.append(await offset(peer, name, EARLIEST))
    return said


async def settings_without_a_value(port: int) -> object:
    peer = await Peer.connect(port)
    return await create(peer, "null", {"retention.ms": None, "cleanup.policy": "compact"})


async def epochs_that_no_leader_has_had(port: int) -> object:
    peer = await Peer.connect(port)
    await create(peer, "epochs", {})
    return [await offset(peer, "epochs", LATEST, epoch) for epoch in (-1, 0, 1, 7)]


async def a_repeated_batch(port: int) -> object:
    """Of an idempotent producer that has lost an answer: it is told when it was appended."""
    peer = await Peer.connect(port)
    await create(peer, "repeated", {"message.timestamp.type": "LogAppendTime"})
    asked = InitProducerIdRequest(None, 60_000)
    while (identity := await peer.ask(apis.INIT_PRODUCER_ID, 4, asked)).error_code:
        continue  # Apache Kafka's broker asks its controller first
    batch = encode_batch(
        [(None, b"v")],
        timestamp_ms=5,
        producer_id=identity.producer_id,
        producer_epoch=0,
        base_sequence=0,
    )
    first, again = [await write(peer, "repeated", batch) for _ in range(2)]
    is_known = first.log_append_time_ms == again.log_append_time_ms > 0
    return first.base_offset, again.base_offset, is_known
