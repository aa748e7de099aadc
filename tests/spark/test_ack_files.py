"""Decisions in a folder: what one process writes another one finds, and nothing is lost between."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import UUID

import pytest

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.spark.ack_files import AckOutbox, Inbox
from sharegroup.spark.locations import folder
from sharegroup.spark.ranges import Decision

ORDERS = TopicPartition("orders", 0)
TOPICS = {UUID(int=1): "orders"}
KEY = TopicIdPartition(UUID(int=1), 0)


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path / "acks" / "deep")


def inbox(location: str, *topics: str) -> Inbox:
    made = Inbox(location, "group", AckType.RELEASE)
    asyncio.run(made.open(topics or ("orders",)))
    return made


def files(location: str) -> list[str]:
    return [path.name for path in sorted(Path(location).glob("*.json"))]


def test_decisions_are_matched_by_content(location: str) -> None:
    source = inbox(location)
    AckOutbox(location).put({ORDERS: [[0, 4, 1, 0], [5, 5, 2, 300]]})
    assert source.take(TOPICS, 1) == {KEY: [Decision(0, 4, 1), Decision(5, 5, 2, 300)]}


def test_a_restart_finds_the_decisions_until_a_later_batch_is_settled(location: str) -> None:
    source = inbox(location)
    AckOutbox(location).put({ORDERS: [[0, 4, 3, 0]]})
    assert source.take(TOPICS, 1) == {KEY: [Decision(0, 4, 3)]}
    source.close()
    restarted = inbox(location)
    assert restarted.take(TOPICS, 1) == {KEY: [Decision(0, 4, 3)]}
    AckOutbox(location).put({ORDERS: [[5, 9, 1, 0]]})
    assert restarted.take(TOPICS, 2) == {KEY: [Decision(5, 9, 1)]}
    assert restarted.take(TOPICS, 3) == {}
    assert files(location) == []


def test_a_restart_gives_no_decision_to_a_later_batch(location: str) -> None:
    source = inbox(location)
    AckOutbox(location).put({ORDERS: [[0, 4, 2, 0]]})
    source.take(TOPICS, 1)
    source.close()
    AckOutbox(location).put({ORDERS: [[3, 3, 1, 0]]})
    assert inbox(location).take(TOPICS, 2) == {KEY: [Decision(3, 3, 1)]}


def test_a_crash_while_the_decisions_of_a_batch_are_taken_loses_none(location: str) -> None:
    source = inbox(location)
    for first in (0, 5):
        AckOutbox(location).put({ORDERS: [[first, first + 4, 2, 0]]})
    one, _ = sorted(Path(location).glob("decisions-*"))
    one.rename(one.with_name(one.name.replace("decisions-", "settled-1-")))  # the other not yet
    source.close()
    restarted = inbox(location)
    assert restarted.take(TOPICS, 1) == {KEY: [Decision(0, 4, 2), Decision(5, 9, 2)]}
    assert restarted.take(TOPICS, 2) == {}


def test_a_batch_that_is_settled_twice_gets_its_later_decision(location: str) -> None:
    source = inbox(location)
    AckOutbox(location).put({ORDERS: [[0, 9, 2, 0]]})
    source.take(TOPICS, 1)
    source.close()  # and the commit is lost with the host: the batch runs again
    AckOutbox(location).put({ORDERS: [[3, 4, 3, 0]]})
    expected = {KEY: [Decision(0, 2, 2), Decision(3, 4, 3), Decision(5, 9, 2)]}
    assert inbox(location).take(TOPICS, 1) == expected


def test_before_a_batch_runs_again_only_its_own_answers_are_deleted(location: str) -> None:
    one, two = inbox(location), inbox(location, "refunds")
    AckOutbox(location).put({ORDERS: [[0, 4, 1, 0]]})
    one.take(TOPICS, 1)
    AckOutbox(location).put({ORDERS: [[5, 9, 1, 0]], TopicPartition("refunds", 2): [[7, 8, 3, 0]]})
    one.begin_again(["orders"])
    assert one.take(TOPICS, 1) == {KEY: [Decision(0, 4, 1)]}, "of the batch before"
    refunds = TopicIdPartition(UUID(int=2), 2)
    assert two.take({UUID(int=2): "refunds"}, 7) == {refunds: [Decision(7, 8, 3)]}


def test_the_later_of_two_files_about_a_record_counts(location: str) -> None:
    source = inbox(location)
    AckOutbox(location).put({ORDERS: [[0, 9, 1, 0]]})
    AckOutbox(location).put({ORDERS: [[3, 4, 3, 0]]})
    assert source.take(TOPICS, 1) == {
        KEY: [Decision(0, 2, 1), Decision(3, 4, 3), Decision(5, 9, 1)]
    }


def test_two_sources_in_one_folder_take_their_own_topics(location: str) -> None:
    one, two = inbox(location), inbox(location, "refunds")
    AckOutbox(location).put({ORDERS: [[0, 0, 1, 0]], TopicPartition("refunds", 2): [[7, 8, 3, 0]]})
    assert one.take(TOPICS, 1) == {KEY: [Decision(0, 0, 1)]}
    assert one.take(TOPICS, 2) == {}
    refunds = TopicIdPartition(UUID(int=2), 2)
    assert two.take({UUID(int=2): "refunds"}, 7) == {refunds: [Decision(7, 8, 3)]}
    assert one.take(TOPICS, 3) == {}
    two.close()
    restarted = inbox(location, "refunds")
    assert restarted.take({UUID(int=2): "refunds"}, 7) == {refunds: [Decision(7, 8, 3)]}


def test_a_new_query_ignores_decisions_of_an_earlier_one(location: str) -> None:
    earlier = inbox(location)
    AckOutbox(location).put({ORDERS: [[0, 9, 1, 0]]})
    earlier.take(TOPICS, 1)
    earlier.close()
    AckOutbox(location).put({ORDERS: [[10, 19, 1, 0]]})
    source = inbox(location)
    source.discard(["orders"])
    assert source.take(TOPICS, 1) == {}


def test_a_folder_that_no_source_reads(location: str) -> None:
    with pytest.raises(ConfigError, match=r"no kafka-share source reads ackLocation"):
        AckOutbox(location).put({ORDERS: [[0, 0, 1, 0]]})


def test_answers_about_a_topic_without_a_source_are_refused(location: str) -> None:
    inbox(location)
    with pytest.raises(ConfigError, match=r"topic 'ordres', and no source reads it .* only orders"):
        AckOutbox(location).put({TopicPartition("ordres", 0): [[0, 0, 1, 0]]})
    assert files(location) == []


def test_files_without_a_reader_are_logged_and_deleted_one_batch_later(
    location: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = inbox(location)
    AckOutbox(location).put({ORDERS: [[0, 0, 1, 0]]})
    [name] = files(location)
    stray = Path(location) / name.replace("0001", "0002")
    stray.write_text((Path(location) / name).read_text().replace("orders", "ordres"))
    torn = Path(location) / name.replace("0001", "0003")
    torn.write_text("{")
    assert source.take(TOPICS, 1) == {KEY: [Decision(0, 0, 1)]}
    assert f"{stray} answers for ordres, which nobody reads here" in caplog.text
    assert f"{torn} cannot be read" in caplog.text
    assert source.take(TOPICS, 2) == {}
    assert files(location) == []


def test_a_torn_file_has_no_effect_and_does_not_stop_the_query(location: str) -> None:
    source = inbox(location)
    AckOutbox(location).put({ORDERS: [[0, 0, 1, 0]]})
    path = Path(location) / files(location)[0]
    path.write_text(path.read_text()[:-4])
    assert source.take(TOPICS, 1) == {}


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("/mnt/acks", "/mnt/acks"),
        ("file:/mnt/acks", "/mnt/acks"),
        ("file:///mnt/a%20b", "/mnt/a b"),
    ],
)
def test_locations(given: str, path: str) -> None:
    assert folder("ackLocation", given) == path


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("s3://bucket/acks", "object stores are not supported"),
        ("hdfs://name/acks", "object stores are not supported"),
        ("acks", "write an absolute path"),
    ],
)
def test_invalid_locations(given: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        folder("ackLocation", given)


def test_a_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"):
        inbox(str(tmp_path / "file" / "acks"))
