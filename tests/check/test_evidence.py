"""The events that show why a rule does not hold."""

from __future__ import annotations

from typing import Any

from sharegroup.check.judge import judged
from sharegroup.check.verdict import evidence
from tests.check.recorder import GROUP, TOPIC, Recorder

WHO: dict[str, Any] = {"group": GROUP, "member": "a"}


def shown(history: Recorder) -> list[str]:
    """The kinds of events behind the only violation, after the group's settings."""
    [one] = judged(history.lines).violations
    return [event["op"] for _, event in evidence(lambda: history.lines, one)]


def test_a_delivery_too_many() -> None:
    history = Recorder()
    history.produce(0, 1)
    history.poll("a", 0, 1)
    history.ack("a", 0, 1)
    history.tell("settings", group="others", limit=3)
    history.poll("b", 1, 1, 2)
    calls = ["produce", "produced", "poll", "polled", "ack", "acked", "poll", "polled"]
    assert shown(history) == ["settings", *calls]


def test_what_others_did_with_the_same_offset() -> None:
    """Another group, and another topic."""
    history = Recorder()
    history.produce(0)
    n = history.n()
    history.tell("produce", n=n, topic="others", id="r0")
    history.tell("produced", n=n, partition=0, offset=0)
    n = history.n()
    history.tell("poll", n=n, group="others", member="x")
    history.tell("polled", n=n, acquired=[[TOPIC, 0, 0, 0, 1]])
    history.poll("a", 0, 0, 0)
    assert shown(history) == ["settings", "produce", "produced", "poll", "polled"]


def test_records_that_nobody_got() -> None:
    history = Recorder()
    history.produce(0, 1, 2)
    history.tell("kill")
    history.poll("a", 2, 2)
    history.ack("a", 2, 2)
    history.end()
    produced = ["produce", "produced"] * 2
    assert shown(history) == ["settings", *produced, "kill"]


def test_a_dead_letter() -> None:
    history = Recorder(letters=True)
    history.produce(0)
    history.poll("a", 0, 0)
    history.ack("a", 0, 0)
    history.place("letter", 0)
    history.end()
    calls = ["produce", "produced", "poll", "polled", "ack", "acked"]
    assert shown(history) == ["settings", *calls, "letter"]


def test_a_start_that_goes_back() -> None:
    history = Recorder()
    history.place("starts", 5)
    history.place("starts", 3)
    assert shown(history) == ["settings", "starts", "starts"]


def test_what_was_deleted() -> None:
    history = Recorder()
    history.place("reset", 0)
    history.tell("gone", topic=TOPIC, partition=0, first=0, last=-1, done=True)
    history.tell("gone", topic=TOPIC, partition=1, first=0, last=-1, done=True)
    history.tell("leave", **WHO)
    history.poll("a", 3, 3)
    assert shown(history) == ["settings", "reset", "gone", "leave", "poll", "polled"]


def test_a_poll_that_came_back_empty() -> None:
    history = Recorder()
    history.tell("calm")
    history.produce(0)
    history.t += 1_001
    history.nothing("a")
    history.poll("a", 0, 0)
    calls = ["produce", "produced", "poll", "polled", "poll", "polled"]
    assert shown(history) == ["settings", "calm", *calls]


def test_handlers() -> None:
    """Also of the other record of the key."""
    history = Recorder(ordering="key")
    place = {"topic": TOPIC, "partition": 0, "count": 1, "key": "k"}
    for offset in range(3):
        n = history.n()
        history.tell("works", n=n, **WHO, **place, offset=offset, id=f"r{offset}")
        if offset == 0:
            history.tell("worked", n=n, result="ok")
    assert shown(history) == ["settings", "works", "works"]


def test_commits() -> None:
    history = Recorder()
    n = history.n()
    history.tell("owns", **WHO, parts=[[TOPIC, 0]])
    history.tell("commit", n=n, **WHO, offsets=[[TOPIC, 0, 0, 5]])
    history.tell("committed", n=n, result="ok")
    place = {"group": GROUP, "topic": TOPIC, "partition": 0}
    history.tell("fetched", **place, offset=3, ranges=[], since=history.t + 1)
    assert shown(history) == ["settings", "owns", "commit", "committed", "fetched"]


def test_a_sink() -> None:
    history = Recorder()
    for offset in 1, 2, 1:
        history.tell("sunk", sink="table", topic=TOPIC, partition=0, offset=offset)
    assert shown(history) == ["sunk", "sunk"]
