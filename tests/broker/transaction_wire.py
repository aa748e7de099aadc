"""A transactional producer that speaks the wire protocol by hand, at any version."""

from __future__ import annotations

import asyncio
from typing import Any

from sharegroup.model.errors import CorruptMessage
from sharegroup.model.ids import NULL_TOPIC_ID
from sharegroup.wire import apis
from sharegroup.wire.apis import Api
from sharegroup.wire.batch import TRANSACTIONAL, decode_batch, encode_batch, parse_headers
from sharegroup.wire.codec import decode
from sharegroup.wire.framing import request_frame, response_body
from sharegroup.wire.markers import aborted_ranges, is_control
from sharegroup.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from sharegroup.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from sharegroup.wire.messages.end_txn import EndTxnRequest
from sharegroup.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sharegroup.wire.messages.init_producer_id import InitProducerIdRequest
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)

TOPIC = "jobs"
TIMEOUT_MS = 60_000
NEWEST = {apis.PRODUCE: 12, apis.END_TXN: 5, apis.INIT_PRODUCER_ID: 5}
OLDER = {apis.PRODUCE: 11, apis.END_TXN: 4, apis.INIT_PRODUCER_ID: 4}


opened: list[Peer] = []
"""All connections that :func:`close_all` has not closed."""


async def close_all() -> None:
    """Close every connection of this test."""
    while opened:
        await opened.pop().close()


class Peer:
    """A connection that sends one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        opened.append(self)

    @classmethod
    async def connect(cls, port: int) -> Peer:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, api: Api, version: int, request: Any) -> Any:
        self.post(api, version, request)
        return await self.answer(api, version)

    def post(self, api: Api, version: int, request: Any) -> None:
        """Send without waiting for the answer."""
        self._writer.writelines(request_frame(api, version, 7, "by-hand", request))

    async def answer(self, api: Api, version: int) -> Any:
        """The next answer, which must be to such a request."""
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        frame = await self._reader.readexactly(size)
        _, body = response_body(api, version, frame)
        return decode(api.response, version, frame, body)

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def new_topic(self, partitions: int, name: str = TOPIC) -> None:
        keep = CreatableTopicConfig("retention.ms", "-1")  # the records here are old
        topic = CreatableTopic(name, partitions, -1, configs=[keep])
        request = CreateTopicsRequest([topic], TIMEOUT_MS)
        answer = await self.ask(apis.CREATE_TOPICS, 6, request)
        assert answer.topics[0].error_code == 0, answer

    async def committed(
        self, partition: int, topic: str = TOPIC, *, over_damage: bool = False
    ) -> list[bytes]:
        """The values that a committed reader sees, in order. ``over_damage``: it goes on behind
        each damaged offset."""
        values: list[bytes] = []
        offset = 0
        while True:
            wanted = FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)
            topics = [FetchTopic(topic, partitions=[wanted])]
            answer = await self.ask(apis.FETCH, 12, FetchRequest(isolation_level=1, topics=topics))
            part = answer.responses[0].partitions[0]
            if over_damage and part.error_code == CorruptMessage.code:
                offset += 1
                continue
            assert part.error_code == 0, part
            if not part.records:
                return values
            aborted = aborted_ranges(part.records, part.aborted_transactions)
            void = {at for first, last in aborted for at in range(first, last + 1)}
            position = 0
            for header in parse_headers(part.records):
                batch = part.records[position : position + header.length]
                position += header.length
                offset = header.last_offset + 1
                if not is_control(header):
                    read = decode_batch(batch)
                    values += [value for at, _, _, value in read if at not in void and value]


class TransactionalProducer(Peer):
    """One transactional id, with transaction version 2 or, as ``older``, without."""

    transactional_id = "transfers"
    older = False
    producer_id = -1
    epoch = -1

    @classmethod
    async def start(
        cls, port: int, transactional_id: str = "transfers", *, older: bool = False
    ) -> TransactionalProducer:
        """Connect and take the id, fencing whoever had it."""
        producer = cls(*await asyncio.open_connection("127.0.0.1", port))
        producer.transactional_id = transactional_id
        producer.older = older
        assert await producer.initialize() == 0
        return producer

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self._sequences: dict[int, int] = {}

    async def at_version(self, api: Api, request: Any) -> Any:
        return await self.ask(api, (OLDER if self.older else NEWEST)[api], request)

    async def initialize(self, timeout_ms: int = TIMEOUT_MS, *, goes_on: bool = False) -> int:
        """The error code. ``goes_on``: with its id and epoch, as after an error (KIP-360)."""
        known = (self.producer_id, self.epoch) if goes_on else (-1, -1)
        request = InitProducerIdRequest(self.transactional_id, timeout_ms, *known)
        answer = await self.at_version(apis.INIT_PRODUCER_ID, request)
        if answer.error_code == 0:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
        code: int = answer.error_code
        return code

    async def add(self, *partitions: int, topic: str = TOPIC) -> list[int]:
        """AddPartitionsToTxn as clients send it; the error codes."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, partitions)],
        )
        answer = await self.ask(apis.ADD_PARTITIONS_TO_TXN, 3, request)
        (found,) = answer.results_by_topic_v3_and_below
        return [part.partition_error_code for part in found.results_by_partition]

    def batch(self, partition: int, *values: bytes, attributes: int = TRANSACTIONAL) -> bytes:
        """The next batch for a partition; the sequence goes on when it is taken."""
        return encode_batch(
            [(None, value) for value in values],
            timestamp_ms=0,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences.get(partition, 0),
            attributes=attributes,
        )

    def request(self, *parts: tuple[int, bytes]) -> ProduceRequest:
        """Produce batches to partitions."""
        data = [PartitionProduceData(partition, batches) for partition, batches in parts]
        topics = [TopicProduceData(TOPIC, NULL_TOPIC_ID, data)]
        return ProduceRequest(self.transactional_id, -1, 1000, topics)

    async def write(self, records: dict[int, bytes], *, version: int = 0) -> list[int]:
        """A record for each of some partitions in one request; the error codes."""
        parts = [(partition, self.batch(partition, value)) for partition, value in records.items()]
        request = self.request(*parts)
        at = version or (OLDER if self.older else NEWEST)[apis.PRODUCE]
        answer = await self.ask(apis.PRODUCE, at, request)
        codes = {}
        for part in answer.responses[0].partition_responses:
            codes[part.index] = part.error_code
            if part.error_code == 0:
                self._sequences[part.index] = self._sequences.get(part.index, 0) + 1
        return [codes[partition] for partition in records]

    async def end(self, *, commit: bool) -> int:
        """The error code; with transaction version 2 the next transaction has another epoch."""
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit)
        answer = await self.at_version(apis.END_TXN, request)
        if answer.error_code == 0 and not self.older:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
        code: int = answer.error_code
        return code
