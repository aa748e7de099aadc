"""A batch that runs again after others in the group have finished some of its records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from sharegroup.spark.source.settling.lost_locks import LostLocks
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import lags, source_options
from tests.spark.reading import ALL, reader_of, rows_between

pytestmark = pytest.mark.process

RECORDS, FINISHED = 10, 4


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def batch(broker: SharegroupServer, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The start and the end of a batch whose query crashed and stayed away while another member
    of the group accepted its first records."""
    admin.Admin(broker.bootstrap).create_topic(name)
    admin.produce(broker.bootstrap, name, [b"%d" % n for n in range(RECORDS)])
    one = reader_of(source_options(broker, name))
    start = one.initialOffset()
    one.prepareForTriggerAvailableNow()
    end = one.latestOffset(start, ALL)
    assert one._loop is not None
    assert one._driver is not None
    one._loop.run(one._driver._cluster.close())  # its connections break, and so do its locks
    other = reader_of(source_options(broker, name))
    other.prepareForTriggerAvailableNow()
    others = other.latestOffset(start, ReadMaxRows(FINISHED))
    other.commit(others)
    other.stop()
    assert lags(broker, name) == [RECORDS - FINISHED]
    return start, end


@pytest.mark.parametrize(("policy", "first"), [("process", 0), ("drop", FINISHED)])
def test_what_the_group_has_finished(
    broker: SharegroupServer,
    name: str,
    batch: tuple[dict[str, Any], dict[str, Any]],
    policy: str,
    first: int,
) -> None:
    start, end = batch
    reader = reader_of(source_options(broker, name, onLostLocks=policy, pollTimeoutMs="50"))
    try:
        for _ in range(2):  # Spark asks once for each scan of the plan
            rows = rows_between(reader, start, end)
            assert [row["offset"] for row in rows] == list(range(first, RECORDS))
        assert reader.latestOffset(end, ALL) == end
        assert lags(broker, name) == [0]
    finally:
        reader.stop()


def test_failing_names_a_record_and_the_options(
    broker: SharegroupServer, name: str, batch: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    reader = reader_of(source_options(broker, name, onLostLocks="fail"))
    try:
        with pytest.raises(
            LostLocks, match=rf"finished 4 of its .* first {name}-0 offset 0: write"
        ):
            reader.partitions(*batch)
    finally:
        reader.stop()
