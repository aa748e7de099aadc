"""Records that may be gone: deleted, damaged, or of a compacted topic. Nobody has to get them."""

from __future__ import annotations

from typing import Any

from sharegroup.check.reader_rules import HASH_MAX
from tests.check.recorder import GROUP, TOPIC, Recorder


class Logs(Recorder):
    """A history of logs from which records go."""

    def gone(self, first: int, last: int, **said: Any) -> None:
        self.tell("gone", topic=TOPIC, partition=0, first=first, last=last, **said)


def test_what_is_gone_is_not_lost() -> None:
    history = Logs()
    history.produce(*range(5))
    history.gone(0, 2)
    history.poll("a", 3, 3)
    history.ack("a", 3, 3)
    history.end()
    assert history.found() == [f"S1 jobs:0@4 of {GROUP}: never delivered"]


def test_what_is_being_deleted_may_come() -> None:
    history = Logs()
    history.produce(0)
    history.gone(0, 0)
    history.poll("a", 0, 0)
    history.ack("a", 0, 0)
    history.end()
    assert history.found() == []


def test_what_was_deleted_comes() -> None:
    history = Logs()
    history.produce(*range(4))
    history.gone(0, 1)
    history.gone(0, 1, done=True)
    history.poll("a", 1, 2)
    assert history.found() == [f"S12 jobs:0@1 of {GROUP}: delivered to a after it was deleted"]


def test_who_asked_before_may_get_it() -> None:
    history = Logs()
    history.produce(0)
    asked = history.t
    history.gone(0, 0, done=True)
    history.poll("a", 0, 0, since=asked)
    assert history.found() == []


def test_a_key_waits_for_no_record_that_is_gone() -> None:
    history = Logs(ordering="key")
    history.produce(0, 1, key="k")
    history.poll("a", 0, 0)
    history.ack("a", 0, 0, "release")
    history.gone(0, 0)
    history.poll("a", 1, 1)
    assert history.found() == []


def test_a_late_answer_for_a_record_that_is_gone_is_taken() -> None:
    history = Logs()
    history.produce(0, 1)
    history.poll("a", 0, 1)
    history.t += 1_000
    history.poll("b", 0, 1, 2)
    history.gone(0, 0)
    history.ack("a", 0, 1)
    assert history.found() == [
        f"S4 jobs:0@1 of {GROUP}: accept of a was taken while b held the record"
    ]


def test_what_is_gone_is_not_in_flight() -> None:
    history = Logs(locks=2)
    history.produce(*range(4))
    history.poll("a", 0, 1)
    history.gone(0, 0)
    history.poll("b", 2, 2)
    assert history.found() == []
    history.poll("b", 3, 3)
    assert history.found() == [f"S8 jobs:0@3 of {GROUP}: 3 records are in flight, over the limit 2"]


def test_the_newest_record_of_a_key_stays() -> None:
    history = Logs()
    history.tell("compacts", topic=TOPIC)
    history.produce(0, 2, 4, key="k")
    history.produce(1, 3, key="l")
    history.end(drained=[GROUP])
    assert history.found() == []  # nobody has asked for anything
    history.poll("a", 4, 4)
    history.end()
    assert history.found() == [
        f"S1 jobs:0@3 of {GROUP}: never delivered",
        f"S1 jobs:0@4 of {GROUP}: delivered, not done, and gone",
    ]


def test_a_record_without_a_place_may_be_the_newest() -> None:
    history = Logs()
    history.tell("compacts", topic=TOPIC)
    history.produce(0, 1, key="k")
    history.produce(2, key="l")
    n = history.n()
    history.tell("produce", n=n, topic=TOPIC, id="r9", key="k")
    history.tell("produced", n=n, result="unknown")
    history.poll("a", 2, 2)
    history.ack("a", 2, 2)
    history.end()
    assert history.found() == []


def test_a_group_that_shares_partitions() -> None:
    history = Logs()
    history.produce(*range(4))
    history.gone(0, 1)
    records = [[TOPIC, 0, 3, "r3"]]
    history.tell("read", group=GROUP, member="a", records=records)
    history.tell(
        "fetched", group=GROUP, topic=TOPIC, partition=0, offset=2, ranges=[], since=history.t
    )
    history.end()
    assert history.found() == ["S1 jobs:0@2 of workers: never read"]


def test_a_topic_that_is_deleted_needs_no_owners() -> None:
    history = Logs(ordering="key")
    history.produce(0)
    history.tell("owns", group=GROUP, member="a", parts=[[TOPIC, 0, 0, HASH_MAX]])
    history.tell("calm")
    history.tell("owns", group=GROUP, member="a", parts=[])
    history.end()
    assert "S10" in str(history.found())
    history.gone(0, -1, done=True)
    found = len(history.found())
    history.end()
    assert len(history.found()) == found
