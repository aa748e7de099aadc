"""Dead letters in several calls, and about other dead letters: each names the record's copy."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from sharegroup import TopicPartition, sync
from sharegroup.move.letter_topics import in_order
from sharegroup.move.side import MoveRefused
from sharegroup.move.topics import MovedTopic
from tests.move.machines import end, move
from tests.move.queue import records
from tests.servers import admin
from tests.servers.sharegroup_server import SharegroupServer

OFFSET = "__dlq.errors.offset"


def letters(bootstrap: str, topic: str, about: str, offsets: range) -> None:
    """Letters about the records of another topic at these offsets."""
    producer = Producer({"bootstrap.servers": bootstrap, **admin.SILENT})
    for offset in offsets:
        said = {"topic": about, "partition": "0", "offset": str(offset), "group": "clerks"}
        headers = {f"__dlq.errors.{name}": text.encode() for name, text in said.items()}
        producer.produce(topic, b"copy", headers=[*headers.items()], partition=0)
    producer.flush(60)


def jobs_and_letters(bootstrap: str, name: str) -> tuple[str, str, str]:
    """A topic without its first four records; letters about those from 5 on, of which the first
    three are deleted; and letters about these letters from 4 on."""
    jobs, dead, twice = f"{name}.jobs", f"{name}.dead", f"a.{name}.twice"
    admin.Admin(bootstrap).create_topic(jobs)
    for topic in (dead, twice):
        admin.Admin(bootstrap).create_topic(topic, errors_deadletterqueue_group_enable="true")
    admin.produce(bootstrap, jobs, [b"%d" % n for n in range(10)])
    letters(bootstrap, dead, jobs, range(2, 10))
    letters(bootstrap, twice, dead, range(4, 8))
    with sync.Admin(bootstrap) as client:
        client.delete_records({TopicPartition(jobs, 0): 4, TopicPartition(dead, 0): 3})
    return jobs, dead, twice


def named(bootstrap: str, topic: str) -> list[int]:
    """The offsets that its letters name."""
    found = records(bootstrap, topic, 1)[0].values()
    return [int(dict(one.headers)[OFFSET]) for one in found]  # type: ignore[call-overload]


@pytest.mark.process
@pytest.mark.parametrize("calls", [1, 3])
def test_letters_name_copies(
    source: SharegroupServer, target: SharegroupServer, calls: int
) -> None:
    jobs, dead, twice = jobs_and_letters(source.bootstrap, f"calls{calls}")
    if calls == 1:
        done = move(source, target, "-t", jobs, "-t", twice, "-t", dead)
        assert done.status == 0, done
    else:
        assert move(source, target, "-t", jobs).status == 0
        admin.produce(target.bootstrap, jobs, [b"it is used already"])
        for topic in (dead, twice):
            done = move(source, target, "-t", topic)
            assert done.status == 0, done
    assert named(target.bootstrap, dead) == [1, 2, 3, 4, 5]
    assert named(target.bootstrap, twice) == [1, 2, 3, 4]
    again = move(source, target, "-t", twice)
    assert (again.status, end(target.bootstrap, twice)) == (0, 4)


@pytest.mark.process
def test_letters_wait_for_what_they_name(
    source: SharegroupServer, target: SharegroupServer
) -> None:
    jobs, dead, _ = jobs_and_letters(source.bootstrap, "early")
    refused = move(source, target, "-t", dead)
    assert refused.status == 1
    assert f"name it as well (--topic {jobs})" in refused.stderr
    assert end(target.bootstrap, dead) == 0

    admin.Admin(target.bootstrap).create_topic(jobs)
    about = f"dead letters are about records of {jobs}: {jobs}-0 at {target.bootstrap} has "
    for count, has in (
        (1, "not all records of the source"),
        (5, "other records from offset 0 on: leave the"),
    ):
        admin.produce(target.bootstrap, jobs, [b"none of these"] * count)
        refused = move(source, target, "-t", dead)
        assert refused.status == 1
        assert about + has in refused.stderr
    assert end(target.bootstrap, dead) == 0


def test_letters_come_after_what_they_name() -> None:
    topics = [MovedTopic(name, 1, {}, exists=False) for name in "abcd"]
    a, b, c, d = topics
    assert in_order(topics, {}) == [topics]
    assert in_order(topics, {"a": {"b", "x"}, "b": {"d"}}) == [[c, d], [b], [a]]
    with pytest.raises(MoveRefused, match="dead letters in a, b are about each other"):
        in_order(topics, {"a": {"b"}, "b": {"a"}})
    with pytest.raises(MoveRefused, match="dead letters in a are about each other"):
        in_order(topics, {"a": {"a"}})
