"""`python -m benchmarks.greedy_client ATTACK HOST:PORT TOPIC`: a client that uses as much of the
broker as it can, until it is killed. It prints a line when it has begun.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from sharegroup.client.admin.admin import Admin
from sharegroup.client.admin.descriptions import TopicDescription
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.framing import request_frame
from sharegroup.wire.messages import fetch, produce
from sharegroup.wire.messages import share_acknowledge as ack
from sharegroup.wire.messages.api_versions import ApiVersionsRequest
from sharegroup.wire.messages.metadata import MetadataRequest
from sharegroup.wire.schema import Message

MIB = 1 << 20
SETTLED_S = 1.5
STAY = threading.Event()
"""Never set: the process waits on it until it is killed."""


class Target:
    """The target: an address, and a topic with large records."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.address = (host, int(port))
        self.topic = topic
        described = asyncio.run(self._described(bootstrap))
        self.topic_id = described.topic_id
        self.partitions = len(described.partitions)

    async def _described(self, bootstrap: str) -> TopicDescription:
        async with Admin(bootstrap) as admin:
            return (await admin.describe_topics(self.topic))[self.topic]

    def connect(self) -> socket.socket:
        """A connection whose first request has been answered."""
        peer = socket.create_connection(self.address)
        peer.sendall(frame(apis.API_VERSIONS, 0, ApiVersionsRequest()))
        peer.recv(MIB)
        return peer


def frame(api: apis.Api, version: int, request: Message) -> bytes:
    return b"".join(request_frame(api, version, 1, "greedy", request))


def stream(target: Target, data: bytes) -> None:
    """Send ``data`` for ever and discard the answers; reconnect when the broker disconnects."""
    peer = target.connect()

    def swallow() -> None:
        with suppress(OSError):
            while peer.recv(MIB):
                pass

    threading.Thread(target=swallow, daemon=True).start()
    while True:
        try:
            peer.sendall(data)
        except OSError:  # disconnected: connect again
            peer.close()
            return stream(target, data)


def pipelining(target: Target) -> None:
    stream(target, frame(apis.METADATA, 12, MetadataRequest([])) * 5_000)


def small_produces(target: Target) -> None:
    """One after the other to each partition."""
    batch = encode_batch([(None, bytes(100))], timestamp_ms=0)
    parts = [produce.PartitionProduceData(number, batch) for number in range(target.partitions)]
    data = [produce.TopicProduceData(topic_id=target.topic_id, partition_data=[p]) for p in parts]
    requests = [produce.ProduceRequest(None, -1, 1000, [one]) for one in data]
    stream(target, b"".join(frame(apis.PRODUCE, 13, one) for one in requests) * 100)


def big_produce(target: Target) -> None:
    batch = encode_batch([(None, bytes(900_000))], timestamp_ms=0)
    data = produce.TopicProduceData(
        topic_id=target.topic_id, partition_data=[produce.PartitionProduceData(0, batch)]
    )
    stream(target, frame(apis.PRODUCE, 13, produce.ProduceRequest(None, -1, 1000, [data])))


def unread(target: Target) -> None:
    part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=64 * MIB)
    topic = fetch.FetchTopic(topic_id=target.topic_id, partitions=[part])
    request = fetch.FetchRequest(max_wait_ms=0, max_bytes=64 * MIB, topics=[topic])
    held = [target.connect() for _ in range(20)]
    for peer in held:
        peer.sendall(frame(apis.FETCH, 13, request) * 3)
    STAY.wait()


def unfinished(target: Target) -> None:
    def send() -> None:
        peer = target.connect()
        head = struct.pack(">ihhih", 20 * MIB, apis.PRODUCE.key, 13, 2, -1)
        with suppress(OSError):
            peer.sendall(head + bytes(20 * MIB - 20))
        STAY.wait()

    for _ in range(12):
        threading.Thread(target=send, daemon=True).start()
    STAY.wait()


def acknowledge(target: Target) -> None:
    first = 10**9
    batches = [ack.AcknowledgementBatch(first + n, first + n, [1]) for n in range(800_000)]
    topic = ack.AcknowledgeTopic(target.topic_id, [ack.AcknowledgePartition(0, batches)])
    request = ack.ShareAcknowledgeRequest("greedy", "greedy", 1, topics=[topic])
    data = frame(apis.SHARE_ACKNOWLEDGE, 1, request)
    peer = target.connect()
    while True:
        peer.sendall(data)
        peer.recv(MIB)


ATTACKS: dict[str, Callable[[Target], None]] = {
    "pipelining": pipelining,
    "small-produces": small_produces,
    "produce": big_produce,
    "unread": unread,
    "unfinished": unfinished,
    "acknowledge": acknowledge,
}


def main() -> None:
    attack, bootstrap, topic = sys.argv[1:]
    target = Target(bootstrap, topic)
    work = threading.Thread(target=ATTACKS[attack], args=(target,), daemon=True)
    work.start()
    STAY.wait(SETTLED_S)
    print("at work", flush=True)
    work.join()


if __name__ == "__main__":
    main()
