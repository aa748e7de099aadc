"""Whether a probe learns when a broker may get work, over real sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

from sharegroup.broker.metrics.endpoint import MetricsEndpoint
from sharegroup.broker.server import Broker
from sharegroup.wire.batch import encode_batch
from tests.broker.by_hand import connect, produce, topic_with_records
from tests.broker.metrics.test_endpoint import get
from tests.broker.running import running
from tests.storage.faulty_disk import FaultyDisk

OK, UNAVAILABLE = "HTTP/1.1 200 OK", "HTTP/1.1 503 Service Unavailable"


async def probed(port: int, path: str) -> tuple[str, str]:
    """Status line, and what the answer says."""
    status, _, body = await get(port, f"GET {path} HTTP/1.1")
    return status, body.strip()


async def assert_not_ready(port: int, why: str) -> None:
    assert await probed(port, "/health/live") == (OK, "live")
    for path in ("/health/ready", "/health"):
        assert await probed(port, path) == (UNAVAILABLE, why)


def test_ready_means_loaded_all_partitions_in_service_and_not_stopping(tmp_path: Path) -> None:
    disk = FaultyDisk()

    async def scenario(broker: Broker, port: int, endpoint: MetricsEndpoint, probe: int) -> None:
        topic_id = await topic_with_records(broker, port, 1)
        endpoint.show(broker.parts)
        for path, says in (("live", "live"), ("ready", "ready")):
            assert await probed(probe, f"/health/{path}") == (OK, says)
        assert (await probed(probe, "/metrics"))[0] == OK
        assert await probed(probe, "/health") == (OK, "ready")
        disk.sync_fails = "jobs-0"
        batch = encode_batch([(b"k", b"v")], timestamp_ms=0)
        assert await produce(await connect(port), topic_id, batch) != 0
        await assert_not_ready(probe, "partitions out of service: jobs-0")
        assert "sharegroup_partitions_failed 1.0" in (await probed(probe, "/metrics"))[1]
        broker.parts.waiters.close()
        await assert_not_ready(probe, "stopping")

    async def main() -> None:
        endpoint, probe = await MetricsEndpoint.open("127.0.0.1", 0)
        starting = "starting: the data folder is being read"
        await assert_not_ready(probe, starting)
        assert await probed(probe, "/metrics") == (UNAVAILABLE, starting)
        try:
            async with asyncio.timeout(240), running(tmp_path, disk=disk) as (broker, port):
                await scenario(broker, port, endpoint, probe)
        finally:
            endpoint.close()

    asyncio.run(main())


def test_a_partition_that_could_not_be_opened_is_out_of_service(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as (broker, port):
            await topic_with_records(broker, port, 1)
        disk = FaultyDisk()
        disk.open_fails = "jobs-0/"
        async with running(tmp_path, disk=disk) as (broker, _):
            endpoint, probe = await MetricsEndpoint.open("127.0.0.1", 0)
            endpoint.show(broker.parts)
            await assert_not_ready(probe, "partitions out of service: jobs-0")
            assert "sharegroup_partitions_failed 1.0" in (await probed(probe, "/metrics"))[1]
            endpoint.close()

    asyncio.run(main())
