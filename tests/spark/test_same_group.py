"""Two sources of one program in one group: they share the records out, and it is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from sharegroup.spark.source.telling import same_group
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer
from tests.spark.readers import Stream, until

pytestmark = pytest.mark.process

SAID = "each record goes to one of them"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharegroupServer]:
    with SharegroupServer(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def topic(server: SharegroupServer, name: str) -> str:
    admin.Admin(server.bootstrap).create_topic(name, partitions=2)
    return name


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if SAID in message]


def test_a_second_source_of_the_group_is_told(
    server: SharegroupServer,
    topic: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(same_group, "LOOK_SECONDS", 0.01)
    one, other = Stream(server, topic), Stream(server, topic)
    one.next()
    other.next()
    until(lambda: len(said(caplog)) == 1)
    assert f"reads the group {topic}:" in said(caplog)[0]
    values = [b"%d" % n for n in range(100)]
    admin.produce(server.bootstrap, topic, values)
    seen: Counter[bytes] = Counter()

    def all_came() -> bool:
        for stream in (one, other):
            if (end := stream.next()) is not None:
                seen.update(stream.run(end))
        return seen.total() >= len(values)

    until(all_came)
    assert seen == Counter(values), "shared out: nothing is missing, nothing twice"
    one.stop()
    other.stop()


def test_a_short_run_is_told_at_its_end(
    server: SharegroupServer, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = Stream(server, topic), Stream(server, topic)
    one.next()
    other.next()
    other.stop()
    assert len(said(caplog)) == 1
    one.stop()


def test_other_groups_and_earlier_queries_are_no_company(
    server: SharegroupServer,
    topic: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(same_group, "LOOK_SECONDS", 0.01)
    first = Stream(server, topic)
    first.next()
    first.stop()
    again, other = Stream(server, topic), Stream(server, f"{topic}-2", subscribe=topic)
    again.next()
    other.next()
    again.stop()
    other.stop()
    assert said(caplog) == []


def test_a_folder_is_not_littered(
    server: SharegroupServer, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stream = Stream(server, topic)
    stream.next()
    stream.stop()
    assert list(tmp_path.iterdir()) == []
