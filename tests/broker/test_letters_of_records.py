"""An operator gives up a range of offsets that nobody has got: only records that the group may read
become dead letters, with copies and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sharegroup.broker.server import Broker
from sharegroup.client import Admin
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.markers import MarkerType
from tests.broker.running import run
from tests.broker.share_wire import new_group, until
from tests.broker.test_cleaning import COMPACTED, KEY_BYTES, keyed, topic
from tests.broker.test_cleaning import produce as produce_batches
from tests.broker.test_dead_letters import (
    COPIES,
    ENABLED,
    GROUP,
    LETTERS,
    SETTINGS,
    TOPIC,
    letters,
    prepared,
    produce,
    stored,
)
from tests.broker.test_read_committed import Transaction

AT = TopicPartition(TOPIC, 0)


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize(
    ("level", "wanted"), [("read_committed", "0 4 5"), ("read_uncommitted", "0 1 2 4 5")]
)
def test_markers_and_aborted_records_get_none(
    tmp_path: Path, copies: bool, level: str, wanted: str
) -> None:
    async def scenario(broker: Broker, port: int) -> None:
        group: dict[str, Any] = {"share.isolation.level": level, **(COPIES if copies else {})}
        async with prepared(port, records=1, **group):
            transaction = Transaction(broker, 77_000)
            await transaction.write(2)  # 1-2
            await transaction.end(MarkerType.ABORT)  # 3
            await produce(port, 2)  # 4-5
            async with Admin(f"127.0.0.1:{port}") as admin:
                await admin.archive_records(GROUP, AT, 0, 100)
            found = await letters(broker, len(wanted.split()))
            await until(lambda: not broker.parts.state.dead_counts())
            assert " ".join(one["offset"] for one in found) == wanted
            assert len(await stored(broker)) == len(found)
            [led] = broker.parts.share_partitions.all()
            assert led.core.start_offset == 6

    run(tmp_path, scenario)


def test_a_decision_ends_before_an_open_transaction(tmp_path: Path) -> None:
    """Its records may be the group's one day."""

    async def scenario(broker: Broker, port: int) -> None:
        async with prepared(port, records=1, **{"share.isolation.level": "read_committed"}) as one:
            transaction = Transaction(broker, 77_000)
            await transaction.write(2)  # 1-2
            async with Admin(f"127.0.0.1:{port}") as admin:
                assert (await admin.archive_records(GROUP, AT, 0, 100)).records == 1
            await transaction.end(MarkerType.COMMIT)
            records = await one.poll()
            assert [record.offset for record in records] == [1, 2]
            one.accept(*records)
            assert [letter["offset"] for letter in await letters(broker, 1)] == ["0"]

    run(tmp_path, scenario)


@pytest.mark.parametrize("copies", [False, True])
def test_what_compaction_has_removed_gets_none(tmp_path: Path, copies: bool) -> None:
    """Whole batches, and single records of batches."""

    async def scenario(broker: Broker, port: int) -> None:
        topic_id = await topic(broker, port, **COMPACTED)
        assert set(await produce_batches(port, topic_id, *map(keyed, range(100)))) == {0}
        assert await broker.parts.store.clean(broker.parts.clock.wall_ms(), KEY_BYTES)
        left = [str(one.offset) for one in await stored(broker, topic=TOPIC)]
        assert 3 < len(left) < 250
        settings = {**SETTINGS, **(COPIES if copies else {})}
        async with Admin(f"127.0.0.1:{port}") as admin:
            await admin.create_topics(LETTERS, configs=ENABLED)
            await new_group(broker, port, GROUP, **settings)
            await admin.archive_records(GROUP, AT, 0, 299)
        found = await letters(broker, len(left))
        await until(lambda: not broker.parts.state.dead_counts())
        assert [one["offset"] for one in found] == left
        assert len(await stored(broker)) == len(left)

    run(tmp_path, scenario)
