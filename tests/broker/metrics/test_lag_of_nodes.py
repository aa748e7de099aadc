"""The lags of a broker that leads a part of the share partitions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.internal_topics import SHARE_GROUP_STATE
from sharegroup.broker.metrics.lag import LagReader
from sharegroup.broker.server import Broker
from sharegroup.model.errors import KafkaStorageError
from sharegroup.share_state.partitioning import partition_for
from tests.broker.test_share_state_log import PARTITIONS, accepted, begin, key, run
from tests.storage.faulty_disk import FaultyDisk


def test_a_scrape_leaves_out_the_state_that_cannot_be_read(tmp_path: Path) -> None:
    disk = FaultyDisk()

    async def scenario(broker: Broker) -> None:
        await begin(broker.parts.state, *range(6))
        whole = {n for n in range(6) if partition_for(key(n), 2) == 1}
        fleet: Any = "as in front of a cluster"
        lags = LagReader(replace(broker.parts, other_nodes=fleet))

        async def partitions() -> set[int]:
            samples = [one for group in [group async for group in lags.read()] for one in group]
            return {int(one.labels[-1]) for one in samples}

        assert await partitions() == set(range(6))
        disk.sync_fails = f"{SHARE_GROUP_STATE}-0"
        with pytest.raises(KafkaStorageError):
            await broker.parts.state.write([accepted(n, 0, 4) for n in range(6)])
        assert await partitions() == whole

    run(tmp_path, scenario, PARTITIONS + "2", disk=disk)
