"""Results while their broker is away: a task waits for it, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pyarrow as pa
import pytest

from sharegroup.client.errors import BootstrapError
from sharegroup.model.errors import RetriableError
from sharegroup.sim import SimulatedLoop
from sharegroup.spark.options.sink import parse_sink_options
from sharegroup.spark.sink import results
from sharegroup.spark.sink.columns import check_sink
from sharegroup.spark.sink.results import ResultError
from tests.client.producing_server import TOPIC, ProducingServer

OUTAGE_S = 30
BLOCK_S = 60
ROWS = pa.record_batch({"value": pa.array([b"done"])})


def simulate(scenario: Callable[[ProducingServer], Awaitable[None]]) -> float:
    """Run to the end, with a server that is away at first; the virtual seconds that passed."""

    async def with_server() -> None:
        server = ProducingServer()
        server.port = 9092
        await scenario(server)

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(with_server())
        return runner.get_loop().time()


async def comes(server: ProducingServer) -> None:
    await asyncio.sleep(OUTAGE_S)
    await server.__aenter__()


def goes(server: ProducingServer) -> None:
    assert server._server is not None
    server._server.close()
    server.drop_connections()


async def write(
    server: ProducingServer, batches: Iterator[pa.RecordBatch], topic: str = TOPIC
) -> None:
    options = parse_sink_options({"kafka.bootstrap.servers": server.address, "topic": topic})
    columns = check_sink(options, [("value", "binary")], complete=False)
    await results._write(batches, options, columns)


def test_a_task_waits_for_a_broker_that_starts() -> None:
    async def scenario(server: ProducingServer) -> None:
        coming = asyncio.create_task(comes(server))
        await write(server, iter([ROWS]))
        await coming
        assert server.produced == 1

    assert simulate(scenario) > OUTAGE_S


def test_a_task_waits_for_a_broker_that_goes_before_its_first_row_comes() -> None:
    async def scenario(server: ProducingServer) -> None:
        await server.__aenter__()
        coming: list[asyncio.Task[None]] = []

        def batches() -> Iterator[pa.RecordBatch]:
            goes(server)
            coming.append(asyncio.create_task(comes(server)))
            yield ROWS

        await write(server, batches())
        assert coming[0].done()
        assert server.produced == 1

    assert simulate(scenario) > OUTAGE_S


def test_a_task_does_not_wait_for_ever() -> None:
    async def scenario(server: ProducingServer) -> None:
        with pytest.raises(BootstrapError, match=f"in {BLOCK_S} s"):
            await write(server, iter([ROWS]))
        await server.__aenter__()

        def batches() -> Iterator[pa.RecordBatch]:
            goes(server)
            yield ROWS

        with pytest.raises(RetriableError):
            await write(server, batches())

    assert 2 * BLOCK_S <= simulate(scenario) < 2.5 * BLOCK_S


def test_a_topic_that_is_missing_is_soon_told() -> None:
    async def scenario(server: ProducingServer) -> None:
        await server.__aenter__()
        with pytest.raises(ResultError, match="there is no topic 'jbos'"):
            await write(server, iter([ROWS]), topic="jbos")

    assert simulate(scenario) < 2 * results.TOPIC_SECONDS
