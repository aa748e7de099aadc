"""Histories that are right, though they look wrong: answers and deliveries cross each other, a
group begins elsewhere, or a record of a key was taken back."""

from __future__ import annotations

from typing import Any

import pytest

from sharegroup.check.reader_rules import HASH_MAX
from tests.check.recorder import GROUP, TOPIC, Recorder


class Crossing(Recorder):
    """A history whose calls are under way at the same time."""

    def ask(self, member: str, kind: str, first: int = 0, last: int = 0) -> int:
        n, acks = self.n(), [[TOPIC, 0, first, last, kind]]
        self.tell("ack", n=n, group=GROUP, member=member, acks=acks)
        return n

    def answer(self, n: int, result: str = "ok") -> None:
        self.tell("acked", n=n, results=[result])

    def begin(self, member: str) -> int:
        n = self.n()
        self.tell("poll", n=n, group=GROUP, member=member)
        return n

    def give(self, n: int, first: int, last: int, count: int) -> None:
        self.tell("polled", n=n, acquired=[[TOPIC, 0, first, last, count]])


def test_one_of_two_acknowledgements_is_refused() -> None:
    """The other one has freed the record."""
    history = Crossing()
    history.produce(0)
    history.poll("a", 0, 0)
    release, accept = history.ask("a", "release"), history.ask("a", "accept")
    history.answer(accept, "INVALID_RECORD_STATE")
    history.poll("b", 0, 0, 2)
    history.answer(release)
    history.ack("b", 0, 0)
    history.end()
    assert history.found() == []


def test_a_release_is_answered_after_the_next_delivery() -> None:
    """To the same member, which holds the record again."""
    history = Crossing()
    history.tell("calm")
    history.produce(0)
    history.poll("a", 0, 0)
    release = history.ask("a", "release")
    history.poll("a", 0, 0, 2)
    history.answer(release)
    history.t += 1_001
    history.nothing("b")
    history.poll("b", 0, 0, 3)
    history.ack("b", 0, 0)
    history.end()
    assert history.found() == []


def test_the_same_with_order_per_key() -> None:
    history = Crossing(ordering="key")
    history.produce(0, 1, key="k")
    history.poll("a", 0, 0)
    release = history.ask("a", "release")
    history.poll("a", 0, 0, 2)
    history.answer(release)
    history.poll("a", 1, 1)
    history.ack("a", 0, 1)
    history.end()
    assert history.found() == []


def test_an_accept_of_a_delivery_that_the_member_had_not_seen() -> None:
    """Its poll was under way, and the lock of the earlier delivery had ended."""
    history = Crossing()
    history.produce(0)
    history.poll("a", 0, 0)
    history.t += 1_000
    poll = history.begin("a")
    history.ack("a", 0, 0)
    history.give(poll, 0, 0, 2)
    history.end()
    assert history.found() == []
    history.poll("a", 0, 0, 3)
    said = "delivered to a after it was done (accept)"
    assert history.found() == [f"S2 jobs:0@0 of {GROUP}: {said}"]


def test_a_kill_before_a_partition_is_known() -> None:
    history = Crossing()
    history.produce(0)
    poll = history.begin("a")
    history.tell("kill")
    history.give(poll, 0, 0, 1)
    history.poll("b", 0, 0)
    history.ack("b", 0, 0)
    history.end()
    assert history.found() == []


@pytest.mark.parametrize("ordering", ["none", "key"])
def test_what_a_reset_skips_is_done(ordering: str) -> None:
    history = Crossing(ordering=ordering)
    history.produce(0, 1, 2, key="k")
    history.place("reset", 2)
    history.poll("a", 2, 2)
    history.ack("a", 2, 2)
    history.end()
    assert history.found() == []
    history.place("reset", 1)  # and back
    history.end()
    assert history.found() == [f"S1 jobs:0@1-2 of {GROUP}: never delivered"]


@pytest.mark.parametrize("kind", ["accept", "release", "reject"])
def test_an_answer_to_what_was_asked_before_a_reset(kind: str) -> None:
    history = Crossing()
    history.produce(0)
    history.poll("a", 0, 0)
    asked = history.ask("a", kind)
    history.place("reset", 0)
    history.answer(asked)
    history.poll("b", 0, 0)
    history.ack("b", 0, 0)
    history.end()
    assert history.found() == []


def test_a_poll_from_before_a_reset() -> None:
    """Its delivery may have been before, and the count begins again."""
    history = Crossing()
    history.produce(0)
    poll = history.begin("a")
    history.place("reset", 0)
    history.give(poll, 0, 0, 2)
    history.poll("b", 0, 0)
    history.ack("b", 0, 0)
    history.end()
    assert history.found() == []


def test_a_dead_letter_from_before_a_reset() -> None:
    history = Crossing(letters=True)
    history.produce(0)
    history.poll("a", 0, 0)
    history.ack("a", 0, 0, "reject")
    history.place("letter", 0)
    history.place("reset", 0)
    history.poll("a", 0, 0)
    history.ack("a", 0, 0)
    history.end()
    assert history.found() == []


def test_the_start_offset_after_a_reset() -> None:
    history = Crossing()
    history.place("starts", 20)
    history.place("reset", 10)
    assert history.found() == []
    history.place("starts", 5)
    assert history.found() == [f"S7 jobs:0@5 of {GROUP}: the start offset was 10 before"]


@pytest.mark.parametrize("other_key", [True, False])
def test_an_accept_behind_a_release_of_the_same_request(other_key: bool) -> None:
    """With order per key it has no effect, and is no error."""
    history = Crossing(ordering="key")
    history.produce(0, key="k")
    history.produce(1, key="l" if other_key else "k")
    history.poll("a", 0, 1)
    n, kinds = history.n(), ("release", "accept")
    acks = [[TOPIC, 0, offset, offset, kind] for offset, kind in enumerate(kinds)]
    history.tell("ack", n=n, group=GROUP, member="a", acks=acks)
    history.tell("acked", n=n, results=["ok", "ok"])
    history.poll("a", 0, 0, 2)
    history.ack("a", 0, 0)
    history.poll("a", 1, 1, 2)
    history.ack("a", 1, 1)
    history.end()
    said = f"S2 jobs:0@1 of {GROUP}: delivered to a after it was done (accept)"
    assert history.found() == ([said] if other_key else [])


@pytest.mark.parametrize(("kind", "result"), [("release", "ok"), ("accept", "unknown")])
def test_what_was_taken_back_is_not_in_flight(kind: str, result: str) -> None:
    history = Crossing(ordering="key", locks=3)
    history.produce(0, 1, 2, key="k")
    history.produce(3, 4, 5, 6, key="l")
    history.poll("a", 0, 2)
    history.ack("a", 0, 0, kind, result)
    history.poll("b", 3, 5)
    assert history.found() == []
    history.poll("b", 6, 6)
    said = "4 records are in flight, over the limit 3"
    assert history.found() == [f"S8 jobs:0@6 of {GROUP}: {said}"]


def test_readers_that_have_all_left() -> None:
    history = Crossing(ordering="key")
    history.produce(0)
    history.tell("calm")
    who: dict[str, Any] = {"group": GROUP, "member": "a"}
    history.tell("owns", **who, parts=[[TOPIC, 0, 0, HASH_MAX]])
    history.tell("read", **who, records=[[TOPIC, 0, 0, "r0", "k"]])
    history.tell("leave", **who)
    history.end()
    assert history.found() == []
