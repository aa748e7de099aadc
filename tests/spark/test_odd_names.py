"""Groups with odd names in a stream: which group is read, and where its files lie."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sharegroup.client import Admin
from sharegroup.model.errors import ConfigError
from sharegroup.spark.folder_lock import FolderTaken
from tests.servers import admin
from tests.servers.odd_names import ODD
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.readers import Stream

pytestmark = pytest.mark.process

VALUES = [b"one", b"two"]
FOLDERS = ("claimLocation", "ackLocation")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def topic(server: SharegroupServer, name: str) -> str:
    admin.Admin(server.bootstrap).create_topic(name)
    admin.produce(server.bootstrap, name, VALUES)
    return name


def topics_of(server: SharegroupServer, group: str) -> set[str]:
    """The topics that the broker has a state of the group for."""

    async def ask() -> set[str]:
        async with Admin(server.bootstrap) as asking:
            return {where.topic for where in await asking.list_share_group_offsets(group)}

    return asyncio.run(ask())


@contextmanager
def stopping(stream: Stream) -> Iterator[Stream]:
    """Stop it at the end, whatever happens."""
    try:
        yield stream
    finally:
        stream.stop()


def read(stream: Stream) -> Counter[bytes]:
    """Batches until there are records; the first batch of an ``ackLocation`` has none."""
    while not (found := stream.batch()):
        pass
    return found


@pytest.mark.parametrize("option", FOLDERS)
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_a_stream_reads_its_group_and_its_files_stay_in_the_folder(
    server: SharegroupServer, topic: str, odd: str, option: str, tmp_path: Path
) -> None:
    folder = tmp_path / "far" / "down"
    with stopping(Stream(server, topic, **{"kafka.group.id": odd, option: str(folder)})) as stream:
        assert read(stream) == Counter(VALUES)
        assert topic in topics_of(server, odd)
    assert [path.name for path in tmp_path.iterdir()] == ["far"]
    assert [path.name for path in folder.parent.iterdir()] == ["down"]
    files = list(folder.rglob("*"))
    assert files
    assert all(path.parent == folder for path in files)


@pytest.mark.parametrize(
    ("one", "other"),
    [("a", " a"), ("../x", "x"), ("line\nbreak", "line\\nbreak"), ("\u00e9", "e\u0301")],
)
def test_the_claims_of_one_group_are_never_those_of_another(
    server: SharegroupServer, topic: str, one: str, other: str, tmp_path: Path
) -> None:
    claims = {"claimLocation": str(tmp_path)}
    with stopping(Stream(server, topic, **{"kafka.group.id": one}, **claims)) as first:
        read(first)
    second = stopping(Stream(server, topic, **{"kafka.group.id": other}, **claims))
    with second as stream, pytest.raises(ConfigError) as refused:
        stream.next()
    assert f"is of the group {one}, the query reads from {other}: " in str(refused.value)


def test_two_groups_do_not_read_answers_from_one_folder(
    server: SharegroupServer, topic: str, tmp_path: Path
) -> None:
    answers = {"ackLocation": str(tmp_path)}
    with stopping(Stream(server, topic, **{"kafka.group.id": "a"}, **answers)) as first:
        read(first)
        second = stopping(Stream(server, topic, **{"kafka.group.id": " a"}, **answers))
        with second as stream, pytest.raises(FolderTaken):
            stream.next()
