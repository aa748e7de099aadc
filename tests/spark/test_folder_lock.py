"""One reader for each topic of an ``ackLocation``: who is refused, and who may start at once."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup.model.ids import TopicPartition
from sharegroup.spark.ack_files import AckOutbox
from sharegroup.spark.folder_lock import FolderLock, FolderTaken, Writer, reader_of
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.deciding import Answer, Query
from tests.spark.readers import until
from tests.spark.source_program import STARTED_BY_ANOTHER, Source

ROWS = {TopicPartition("orders", 0): [[0, 0, 1, 0]]}


def take(folder: Path, *topics: str) -> FolderLock:
    lock = FolderLock(folder, "billing")
    asyncio.run(lock.take(topics))
    return lock


def test_a_second_reader_of_a_topic_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    first = take(tmp_path, "orders")
    AckOutbox(str(tmp_path)).put(ROWS, writer=Writer("/checkpoints/nightly", "nightly"))
    take(tmp_path, "refunds")  # another topic: the second source of the same query
    with pytest.raises(FolderTaken) as refused:
        take(tmp_path, "orders")
    for part in (
        f"process {os.getpid()} on {socket.gethostname()}",
        "reads orders for the group billing since 20",
        "the query nightly with the checkpoint /checkpoints/nightly",
        "give this query a folder of its own",
    ):
        assert part in str(refused.value)
    first.release()
    take(tmp_path, "orders").check()


def test_a_reader_detects_file_systems_without_locks(tmp_path: Path) -> None:
    first = take(tmp_path, "orders")
    for path in tmp_path.iterdir():  # as if the lock were another host's, who does not see ours
        path.unlink()
    second = take(tmp_path, "orders")
    second.check()
    with pytest.raises(FolderTaken, match=r"was taken by process .* does not hold locks between"):
        first.check()


def test_answers_of_another_query_are_refused(tmp_path: Path) -> None:
    take(tmp_path, "orders")
    box = AckOutbox(str(tmp_path))
    box.put(ROWS, writer=Writer("/checkpoints/a", None))
    box.put(ROWS, writer=Writer("/checkpoints/a", "renamed"))
    with pytest.raises(
        FolderTaken, match="belongs to the query with the checkpoint /checkpoints/a"
    ):
        box.put(ROWS, writer=Writer("/checkpoints/b", "intruder"))
    assert len(list(tmp_path.glob("decisions-*"))) == 2


def test_the_next_run_of_a_query_may_have_another_checkpoint(tmp_path: Path) -> None:
    take(tmp_path, "orders").release()
    AckOutbox(str(tmp_path)).put(ROWS, writer=Writer("/checkpoints/a", None))
    take(tmp_path, "orders")
    AckOutbox(str(tmp_path)).put(ROWS, writer=Writer("/checkpoints/b", None))


# --- processes ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def acks(tmp_path: Path) -> str:
    return str(tmp_path / "acks")


@pytest.mark.process
def test_a_query_is_refused_while_another_lives_and_starts_at_once_when_it_was_killed(
    broker: SharegroupServer, name: str, acks: str
) -> None:
    admin.Admin(broker.bootstrap).create_topic(name)
    admin.produce(broker.bootstrap, name, [b"1"])
    live = Source(broker.bootstrap, name, acks)
    second = Query(broker, name, acks)
    try:
        with pytest.raises(FolderTaken, match=f"process {live.process.pid} on .* reads {name}"):
            second.next()
        assert live.process.poll() is None
    finally:
        live.kill()
        second.reader.stop()
    again = Query(broker, name, acks)
    admin.produce(broker.bootstrap, name, [b"2"])
    assert again.values(lambda record: Answer("accept"), 1)
    again.reader.stop()


@pytest.mark.process
def test_a_source_of_a_killed_spark_releases_the_folder(
    broker: SharegroupServer, name: str, acks: str
) -> None:
    admin.Admin(broker.bootstrap).create_topic(name)
    admin.produce(broker.bootstrap, name, [b"1"])
    driver = Source(broker.bootstrap, name, acks, STARTED_BY_ANOTHER)
    reader = reader_of(Path(acks), name)
    assert reader is not None
    driver.kill()
    take(Path(acks), name).release()
    until(lambda: not Path(f"/proc/{reader.pid}").exists())
