"""The time of one acknowledgement, and that of one Produce request, each alone on its connection.

A member acquires a record, acknowledges it and waits for the answer, 500 times; then a producer
sends 500 batches of one record with acks=all, one after the other. Both speak the wire protocol
only, so that no client's buffers or threads are measured.
"""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

from benchmarks.benchmark import Bench, Benchmark, Row
from benchmarks.wire_member import ACCEPT, TIMEOUT_MS, WireMember, records
from sharegroup.client.network.connection import Connection
from sharegroup.model.errors import error_from_code
from sharegroup.wire import apis
from sharegroup.wire.batch import encode_batch
from sharegroup.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.servers.admin import produce

REQUESTS = 500
WARM_UP = 100
WAIT_MS = 5_000
ALL = -1


def run(bench: Bench) -> dict[str, float]:
    acknowledged, produced = asyncio.run(measured(bench, REQUESTS))
    return {
        "acknowledge-p50": middle_ms(acknowledged),
        "produce-one-p50": middle_ms(produced),
    }


async def measured(bench: Bench, count: int) -> tuple[list[float], list[float]]:
    """Seconds of each acknowledgement, and of each Produce request."""
    topic, group = bench.new_topic(1), bench.new_group()
    produce(bench.bootstrap, topic, [b"x"] * (WARM_UP + count))
    member = await WireMember.join(bench.bootstrap, group, topic)
    acknowledged: list[float] = []
    while len(acknowledged) < WARM_UP + count:
        held = await member.fetch(1, wait_ms=WAIT_MS, exactly=True)
        if records(held) == 0:
            continue
        began = time.perf_counter()
        await member.acknowledge(held, ACCEPT)
        acknowledged.append(time.perf_counter() - began)
    member.die()
    host, port = bench.bootstrap.split(":")
    connection = await Connection.open(host, int(port), client_id="bench", timeout_ms=TIMEOUT_MS)
    produced: list[float] = []
    for _ in range(WARM_UP + count):
        began = time.perf_counter()
        await send_one(connection, topic, member.topic_id)
        produced.append(time.perf_counter() - began)
    connection.close()
    return acknowledged[WARM_UP:], produced[WARM_UP:]


async def send_one(connection: Connection, topic: str, topic_id: UUID) -> None:
    batch = encode_batch([(None, b"x")], timestamp_ms=time.time_ns() // 1_000_000)
    data = TopicProduceData(topic, topic_id, [PartitionProduceData(0, batch)])
    request = ProduceRequest(None, ALL, TIMEOUT_MS, [data])
    answer = await connection.send(apis.PRODUCE, request, timeout_ms=TIMEOUT_MS)
    code = answer.responses[0].partition_responses[0].error_code
    if code:
        raise error_from_code(code)


def middle_ms(seconds: list[float]) -> float:
    """The median, in milliseconds."""
    return sorted(seconds)[len(seconds) // 2] * 1e3


BENCHMARK = Benchmark(
    name="single-requests",
    rows=(
        Row(key="acknowledge-p50", title="acknowledge one record: p50", unit="ms"),
        Row(key="produce-one-p50", title="produce one record, acks=all: p50", unit="ms"),
    ),
    run=run,
)
