"""The rules of handlers with order per key (S9)."""

from __future__ import annotations

import pytest

from tests.check.recorder import GROUP, TOPIC, Recorder


class Workers(Recorder):
    """A history of workers."""

    def begins(self, member: str, offset: int, count: int = 1) -> int:
        n = self.n()
        place = {"topic": TOPIC, "partition": 0, "offset": offset}
        said = {"id": f"r{offset}", "count": count, "key": "k"}
        self.tell("works", n=n, group=GROUP, member=member, **place, **said)
        return n

    def handle(self, member: str, offset: int, result: str = "ok", count: int = 1) -> None:
        n = self.begins(member, offset, count)
        self.tell("worked", n=n, result=result)


def test_handlers_in_order() -> None:
    history = Workers(ordering="key")
    history.handle("a", 0)  # before the producer is told
    history.produce(0, 1, 2, key="k")
    history.handle("a", 1, "failed")
    history.handle("b", 1, count=2)
    history.handle("b", 2)
    history.end()
    assert history.found() == []


def test_one_before_an_earlier_one() -> None:
    history = Workers(ordering="key")
    history.produce(0, 1, key="k")
    history.handle("a", 0, "failed")
    history.handle("a", 1)
    assert history.found() == [f"S9 jobs:0@1 of {GROUP}: handled by a before 0 of its key"]


def test_two_at_a_time() -> None:
    history = Workers(ordering="key")
    history.produce(0, 1, key="k")
    history.begins("a", 0)
    history.begins("a", 1)
    assert history.found() == [
        f"S9 jobs:0@1 of {GROUP}: handled by a while it handles 0 of its key"
    ]


@pytest.mark.parametrize("how", ["rejected", "at the limit", "somebody has died", "no order"])
def test_one_that_need_not_wait(how: str) -> None:
    history = Workers(ordering="none" if how == "no order" else "key", limit=2)
    history.produce(0, 1, key="k")
    history.handle("a", 0, "rejected" if how == "rejected" else "failed")
    if how == "at the limit":
        history.handle("a", 0, "failed", count=2)
    if how == "somebody has died":
        history.tell("leave", group=GROUP, member="b")
    history.handle("a", 1)
    assert history.found() == []


def test_a_handler_that_was_killed_runs_no_more() -> None:
    history = Workers(ordering="key")
    history.produce(0, 1, key="k")
    history.begins("a", 0)
    history.tell("leave", group=GROUP, member="a")
    history.handle("b", 0, count=2)
    history.handle("a", 1)
    assert history.found() == []


@pytest.mark.parametrize("comes", [True, False])
def test_one_that_may_have_been_given_up_unseen(comes: bool) -> None:
    """By what a slow member has fetched ahead. If it comes later, it was not."""
    history = Workers(ordering="key", limit=2, unseen=True)
    history.produce(0, 1, key="k")
    history.handle("a", 1)
    if comes:
        history.handle("a", 0)
    found = [f"S9 jobs:0@1 of {GROUP}: handled by a before 0 of its key"]
    assert history.found() == (found if comes else [])


def test_one_that_was_given_up_unseen_and_comes_again_after_a_reset() -> None:
    history = Workers(ordering="key", limit=2, unseen=True)
    history.produce(0, 1, key="k")
    history.handle("a", 1)
    history.tell("reset", group=GROUP, topic=TOPIC, partition=0, offset=0)
    history.handle("a", 0)
    assert history.found() == []


def test_a_key_waits_for_a_handler() -> None:
    """It keeps its lock."""
    history = Workers(ordering="key")
    history.tell("calm")
    history.produce(0, 1, key="k")
    n = history.begins("a", 0)
    history.t += 2_500
    history.nothing("b")
    history.tell("worked", n=n, result="ok")
    history.poll("b", 1, 1)
    assert history.found() == []
