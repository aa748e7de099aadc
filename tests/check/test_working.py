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
