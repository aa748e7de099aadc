"""A data folder as ``sharegroup serve`` leaves it, and checks of it."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

from sharegroup.app.environment import local_environment
from sharegroup.app.fsck import CheckOutcome, CheckProgress, fsck
from sharegroup.broker.server import Broker
from tests.broker import running, share_wire
from tests.broker.share_wire import ACCEPT, RELEASE

SEGMENT = "log.segment.bytes=1048576"
SILENT = CheckProgress(begins=lambda _: None, read=lambda _: None)


def check(folder: Path, *, repair: bool = False) -> CheckOutcome:
    """Check a folder that no broker has open."""
    return fsck(local_environment(), str(folder), repair=repair, progress=SILENT)


def without_checksum(catalog: str) -> str:
    """The text of a catalog as an earlier version wrote it: it may be changed."""
    return re.sub(r',\s*"crc32c": \d+', "", catalog)


def kinds(outcome: CheckOutcome) -> set[str]:
    """What is left to do."""
    return {finding.kind for finding in outcome.findings if finding.open}


def tree(folder: Path) -> dict[str, tuple[bytes | None, int]]:
    """Content and time of everything in a folder."""
    return {
        path.relative_to(folder).as_posix(): (
            path.read_bytes() if path.is_file() else None,
            path.stat().st_mtime_ns if path.is_file() else 0,
        )
        for path in sorted(folder.rglob("*"))
    }


def served(folder: Path) -> UUID:
    """Twelve batches of five records in small segments. Of 60 records a group has accepted the
    first ten, and released the five behind them. A clean stop; the data folder is ``data`` in it.
    """
    found: list[UUID] = []

    async def scenario(broker: Broker, port: int) -> None:
        session = await share_wire.started(broker, port, partitions=1)
        found.append(session.topic_id)
        configs = {"retention.ms": "-1", "segment.bytes": "1048576"}
        broker.parts.store.set_topic_config(share_wire.TOPIC, configs)
        for log in broker.parts.store.logs:
            if log.topic_partition.topic == share_wire.TOPIC:
                log.settings = type(log.settings)(
                    segment_bytes=520, retention_ms=-1, index_interval_bytes=100
                )
        for _ in range(12):
            await share_wire.produce(port, session.topic_id, 0, 5)
        await session.fetch(0, max_records=0)
        await session.fetch(max_records=15)
        answer = await session.acknowledge({0: [(0, 9, [ACCEPT]), (10, 14, [RELEASE])]})
        assert share_wire.codes(answer) == {0: 0}

    running.run(folder, scenario)
    return found[0]


def starts(folder: Path) -> None:
    """A broker starts with the folder, and stops."""

    async def scenario(broker: Broker, port: int) -> None:
        for log in broker.parts.store.logs:
            log.check_invariants()
        for shard in broker.parts.state.shards:
            (await shard.machine()).check_invariants()

    running.run(folder, scenario)
