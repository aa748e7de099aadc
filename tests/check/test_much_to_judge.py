"""Twice as long a history is about twice as much work: states that are looked at are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sharegroup.check.spans import Spans
from tests.check.recorder import GROUP, TOPIC, Recorder


class Many(Recorder):
    """A history of many records."""

    def done(self, offset: int) -> None:
        self.poll("a", offset, offset)
        self.ack("a", offset, offset)

    def handled(self, offset: int, result: str = "ok") -> None:
        n, who = self.n(), {"group": GROUP, "member": "w"}
        place = {"topic": TOPIC, "partition": 0, "offset": offset}
        self.tell("works", n=n, **who, **place, id=f"r{offset}", count=1, key="k")
        self.tell("worked", n=n, result=result)


def in_flight(records: int) -> Recorder:
    history = Many(locks=100)
    for offset in range(records):
        history.produce(offset)
        history.done(offset)
    return history


def a_key_with_a_worker(records: int) -> Recorder:
    history = Many(ordering="key", unseen=True)
    for offset in range(0, records, 2):
        history.produce(offset, offset + 1, key="k")
        history.handled(offset)
        history.done(offset + 1)
    return history


def a_key_whose_records_are_gone(records: int) -> Recorder:
    history = Many(ordering="key")
    half = records // 2
    history.produce(*range(half), key="k")
    history.tell("gone", topic=TOPIC, partition=0, first=0, last=half - 1, done=True)
    for offset in range(half, records):
        history.produce(offset, key="k")
        history.done(offset)
    return history


def members_that_leave(records: int) -> Recorder:
    history = Many()
    for offset in range(records):
        history.produce(offset)
        history.done(offset)
        history.tell("leave", group=GROUP, member="b")
    return history


@pytest.mark.parametrize(
    "history", [in_flight, a_key_with_a_worker, a_key_whose_records_are_gone, members_that_leave]
)
def test_the_work_grows_with_the_history(
    history: Callable[[int], Recorder], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = [0]
    items, change = Spans.items, Spans.change

    def counted_items(of: Spans[Any], first: int, last: int) -> Iterator[tuple[int, int, Any]]:
        for one in items(of, first, last):
            looks[-1] += 1
            yield one

    def counted_change(of: Spans[Any], first: int, last: int, to: Callable[[Any], Any]) -> None:
        def counted(old: Any) -> Any:
            looks[-1] += 1
            return to(old)

        change(of, first, last, counted)

    monkeypatch.setattr(Spans, "items", counted_items)
    monkeypatch.setattr(Spans, "change", counted_change)
    assert history(300).found() == []
    looks.append(0)
    assert history(600).found() == []
    once, twice = looks
    assert 0 < twice < 2.5 * once
