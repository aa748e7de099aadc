"""A checkpoint that is started again with other options: the answers about its last batch, and the
topics of that batch, are not forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sharegroup.model.errors import ConfigError
from sharegroup.spark.data_source import ShareStreamReader
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.conftest import lags, source_options
from tests.spark.deciding import Answer, Query
from tests.spark.reading import ALL, reader_of, rows_between

pytestmark = pytest.mark.process

REJECT = Answer("reject")
Start = Callable[..., ShareStreamReader]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def topic(broker: SharegroupServer, name: str) -> str:
    admin.Admin(broker.bootstrap).create_topic(name)
    return name


@pytest.fixture
def start(broker: SharegroupServer, topic: str) -> Iterator[Start]:
    """Starts a query without ``ackLocation``; the fixture stops it."""
    made: list[ShareStreamReader] = []

    def one(**more: str) -> ShareStreamReader:
        options = source_options(broker, topic, **{"pollTimeoutMs": "50", **more})
        made.append(reader_of(options))
        return made[-1]

    yield one
    for reader in made:
        reader.stop()


@pytest.fixture
def answered(broker: SharegroupServer, topic: str, tmp_path: Path) -> tuple[dict[str, Any], ...]:
    """The start and the end of a batch that was rejected through ``ackLocation``. Spark has
    committed the batch; its query stopped before it told the broker."""
    admin.produce(broker.bootstrap, topic, [b"bad"])
    query = Query(broker, topic, str(tmp_path / "acks"))
    end = query.wait()
    begin = query.offset
    query.run(end, lambda record: REJECT)
    query.reader.stop()
    return begin, end


def test_answers_in_a_folder_are_not_replaced_by_accepting_everything(
    start: Start, broker: SharegroupServer, topic: str, answered: tuple[dict[str, Any], ...]
) -> None:
    begin, end = answered
    with pytest.raises(ConfigError, match="give its ackLocation"):
        start().latestOffset(end, ALL)
    with pytest.raises(ConfigError, match="give its ackLocation"):  # the batch is to run again
        start().partitions(begin, end)
    assert lags(broker, topic) != [0]


def test_a_checkpoint_whose_answers_are_all_told_needs_no_folder(
    start: Start,
    broker: SharegroupServer,
    topic: str,
    answered: tuple[dict[str, Any], ...],
    tmp_path: Path,
) -> None:
    admin.produce(broker.bootstrap, topic, [b"worse"])
    query = Query(broker, topic, str(tmp_path / "acks"))
    query.offset = answered[1]
    assert query.available_now(lambda record: REJECT) == Counter([b"worse"])
    query.reader.stop()
    admin.produce(broker.bootstrap, topic, [b"good"])
    reader = start()
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(query.offset, ALL)
    assert [row["value"] for row in rows_between(reader, query.offset, end)] == [b"good"]


def test_a_batch_that_was_made_without_a_folder_is_accepted(
    start: Start, broker: SharegroupServer, topic: str, tmp_path: Path
) -> None:
    admin.produce(broker.bootstrap, topic, [b"done"])
    one = start()
    one.prepareForTriggerAvailableNow()
    end = one.latestOffset(one.initialOffset(), ALL)
    one.stop()
    query = Query(broker, topic, str(tmp_path / "acks"))
    query.offset = end
    assert not query.available_now(lambda record: REJECT)
    assert lags(broker, topic) == [0]
    query.reader.stop()


def test_records_of_a_topic_that_is_left_out_stay_done(
    start: Start, broker: SharegroupServer, topic: str
) -> None:
    other = f"{topic}-other"
    admin.Admin(broker.bootstrap).create_topic(other)
    admin.produce(broker.bootstrap, other, [b"once"])
    often = {"kafka.metadata.max.age.ms": "100", "pollTimeoutMs": "150"}
    both = {"subscribe": f"{topic},{other}", **often}
    one = start(**both)
    one.prepareForTriggerAvailableNow()
    end = one.latestOffset(one.initialOffset(), ALL)
    assert [row["value"] for row in rows_between(one, one.initialOffset(), end)] == [b"once"]
    one.stop()

    narrower = start(**often)
    for _ in range(5):  # looks the topics up at each call
        assert narrower.latestOffset(end, ALL) == end
    admin.produce(broker.bootstrap, topic, [b"new"])
    narrower.prepareForTriggerAvailableNow()
    after = narrower.latestOffset(end, ALL)
    assert after["d"], "the record of the other topic is done, and not confirmed"
    narrower.stop()

    again = start(**both)
    again.prepareForTriggerAvailableNow()
    last = again.latestOffset(after, ALL)
    assert rows_between(again, after, last) == []
    assert sum(lag or 0 for lag in lags(broker, topic)) == 0
