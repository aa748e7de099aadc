"""Rules of waiting: what is there comes to who asks (L1, L2), and nobody asks in a frenzy (L4)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.check.recorder import GROUP, TOPIC, Recorder

LATE = "was available, and a poll of a member that reads it came back empty"


def calm(**settings: Any) -> Recorder:
    """A history that begins without faults, with one record."""
    history = Recorder(**settings)
    history.tell("calm")
    history.produce(0)
    return history


@pytest.mark.parametrize("is_calm", [True, False])
def test_a_new_record_that_does_not_come(is_calm: bool) -> None:
    history = Recorder()
    if is_calm:
        history.tell("calm")
    history.produce(0)
    history.t += 1_001
    history.nothing("a")
    history.poll("a", 0, 0)
    assert history.found() == ([f"L2 jobs:0@0 of {GROUP}: {LATE}"] if is_calm else [])


def test_one_that_comes_in_time() -> None:
    history = calm()
    history.nothing("a")  # begun within a second
    history.poll("a", 0, 0)
    assert history.found() == []


def test_a_poll_that_was_too_short() -> None:
    history = calm()
    history.t += 1_001
    history.nothing("a", 400)
    history.poll("a", 0, 0)
    assert history.found() == []


def test_one_that_was_asked_for_before_the_empty_poll_had_ended() -> None:
    history = calm()
    history.t += 1_001
    asked_ms = history.t
    history.nothing("a")
    history.poll("b", 0, 0, since=asked_ms)
    assert history.found() == []


def test_a_released_record_that_does_not_come() -> None:
    history = calm()
    history.poll("a", 0, 0)
    history.ack("a", 0, 0, "release")
    history.t += 1_001
    history.nothing("b")
    history.poll("b", 0, 0, 2)
    assert history.found() == [f"L1 jobs:0@0 of {GROUP}: {LATE}"]


@pytest.mark.parametrize("gone", [True, False])
@pytest.mark.parametrize("ms", [1_000, 2_002])
def test_a_lock_that_does_not_end(ms: int, gone: bool) -> None:
    """Whether its holder is there or not."""
    history = calm()
    history.poll("a", 0, 0)
    if gone:
        history.tell("leave", group=GROUP, member="a")
    history.t += ms
    history.nothing("b")
    history.poll("b", 0, 0, 2)
    assert history.found() == ([f"L1 jobs:0@0 of {GROUP}: {LATE}"] if ms > 2_000 else [])


def test_a_renewed_lock() -> None:
    history = calm()
    history.poll("a", 0, 0)
    history.t += 900
    history.ack("a", 0, 0, "renew")
    history.poll("a", 0, 0)
    history.t += 1_200
    history.nothing("b")
    history.poll("b", 0, 0, 2)
    assert history.found() == []


def test_a_record_that_rests() -> None:
    history = calm(rests_ms=5_000)
    history.poll("a", 0, 0)
    history.ack("a", 0, 0, "release")
    history.t += 4_000
    history.nothing("b")
    history.poll("b", 0, 0, 2)
    assert history.found() == []


def test_a_record_that_was_away_unseen() -> None:
    history = calm()
    history.poll("a", 0, 0)
    history.ack("a", 0, 0, "release")
    history.t += 1_001
    history.nothing("b")
    history.poll("b", 0, 0, 3)
    assert history.found() == []


def test_a_key_waits_for_its_holder() -> None:
    history = Recorder(ordering="key")
    history.tell("calm")
    history.produce(0, 1, key="k")
    history.produce(2, key="another")
    history.poll("a", 0, 0)
    history.t += 1_001
    history.nothing("b")
    history.ack("a", 0, 0)
    history.poll("b", 1, 1)
    history.poll("b", 2, 2)
    assert history.found() == [f"L2 jobs:0@2 of {GROUP}: {LATE}"]


def test_a_partition_that_the_member_does_not_read() -> None:
    history = calm()
    history.t += 1_001
    n = history.n()
    history.tell("poll", n=n, group=GROUP, member="a")
    history.t += 600
    history.tell("polled", n=n, acquired=[], of=[[TOPIC, 1]])
    history.poll("b", 0, 0)
    assert history.found() == []


def test_after_a_kill_it_is_not_calm_any_more() -> None:
    history = calm()
    history.tell("kill")
    history.t += 1_001
    history.nothing("a")
    history.poll("a", 0, 0)
    assert history.found() == []


@pytest.mark.parametrize("polls", [100, 101])
def test_polls_in_a_frenzy(polls: int) -> None:
    history = Recorder()
    history.tell("calm")
    for _ in range(polls):
        history.nothing("a", 0)
    said = "the polls of a come back empty, again and again, without a pause"
    assert history.found() == ([f"L4 {GROUP}: {said}"] if polls > 100 else [])
