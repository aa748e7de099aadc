"""Which results a worker keeps for records that may come back, for how long, and what it says."""

from __future__ import annotations

import random
from uuid import UUID

import pytest

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.client.core.fetched import Lease
from sharegroup.client.core.record import HeldDelivery, Record
from sharegroup.client.worker.failures import FailureLog
from sharegroup.client.worker.kept import KEPT_S, KeptResults
from sharegroup.client.worker.metrics import WorkerMetrics
from sharegroup.client.worker.work import Work
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange

PARTITION = TopicIdPartition(UUID(int=7), 0)


def record(offset: int, *, count: int = 1, key: bytes | None = None) -> Record:
    where, only = TopicPartition("jobs", 0), OffsetRange(offset, offset)
    delivery = HeldDelivery(PARTITION, where, only, count, Lease(), 0.0)
    return Record((offset, 0, key, b"", []), delivery)


class Bench:
    """Kept results on a clock that is moved."""

    def __init__(self, *, wanted: bool = True, ordered: bool = False, limit: int = 10) -> None:
        self.now = 100.0
        self.served = True
        self.metrics = WorkerMetrics(lambda: self.now)
        self.cancelled: list[Work] = []
        self.kept = KeptResults(
            wanted=wanted,
            ordered=ordered,
            metrics=self.metrics,
            failures=FailureLog(lambda: self.now),
            now=lambda: self.now,
            is_served=lambda _partition: self.served,
            cancel=self.cancelled.append,
            limit=limit,
        )

    def accept(self, *offsets: int, key: bytes | None = None) -> None:
        for offset in offsets:
            self.kept.keep_answer(record(offset, key=key), AckType.ACCEPT, None)

    def answered(self, offset: int, *, key: bytes | None = None, first: bool = True) -> bool:
        """Whether the record's result was kept, now that it comes back."""
        return self.kept.take(record(offset, count=2, key=key), first=first) is not None


def test_a_result_answers_once() -> None:
    bench = Bench()
    bench.accept(3)
    assert (bench.answered(4), bench.answered(3), bench.answered(3)) == (False, True, False)
    assert (bench.metrics.kept_answered, bench.metrics.kept_dropped) == (1, 0)


def test_a_release_is_not_kept() -> None:
    bench = Bench()
    bench.kept.keep_answer(record(1), AckType.RELEASE, None)
    assert len(bench.kept) == 0


def test_the_pause_of_a_release_is_kept() -> None:
    bench = Bench()
    bench.kept.keep_answer(record(1), AckType.RELEASE, None, 130.0)
    found = bench.kept.take(record(1, count=2), first=True)
    assert found is not None
    assert (found.final, found.due, found.answer) == (False, 130.0, None)


def test_nothing_is_kept_if_that_is_not_wanted() -> None:
    bench = Bench(wanted=False)
    bench.accept(1)
    assert not bench.kept.keep_running(Work(record(2)))
    assert len(bench.kept) == 0


def test_a_record_that_others_have_had_is_handled_again(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.accept(3)
    assert bench.kept.take(record(3, count=3), first=True) is None
    assert bench.metrics.kept_dropped == 1
    assert "jobs-0@3 is dropped: another member has had the record since" in caplog.text


def test_a_handler_that_runs_has_the_new_delivery_whatever_its_count() -> None:
    bench, work = Bench(), Work(record(3))
    assert bench.kept.keep_running(work)
    assert bench.kept.running == 1
    found = bench.kept.take(record(3, count=9), first=True)
    assert found is not None
    assert (found.work, bench.kept.running, bench.cancelled) == (work, 0, [])


def test_what_has_not_come_back_is_dropped_after_a_time(caplog: pytest.LogCaptureFixture) -> None:
    bench, work = Bench(), Work(record(1))
    bench.kept.keep_running(work)
    bench.accept(2)
    bench.kept.expire()
    bench.now += KEPT_S / 2
    bench.accept(3)
    bench.kept.expire()
    bench.now += KEPT_S / 2
    bench.kept.expire()
    assert "the result of jobs-0@2 is dropped: nothing has come back" in caplog.text
    assert (len(bench.kept), bench.kept.running) == (2, 1), "one runs, one is young"
    bench.now += KEPT_S / 2
    assert bench.kept.ended(work, AckType.ACCEPT, None)
    bench.kept.expire()
    assert (len(bench.kept), bench.kept.running) == (1, 0), "the time of the first begins now"
    assert bench.metrics.kept_dropped == 2


def test_the_time_does_not_run_while_the_broker_is_away() -> None:
    bench = Bench()
    bench.served = False
    bench.accept(1)
    for _ in range(10):
        bench.now += KEPT_S
        bench.kept.expire()
    assert len(bench.kept) == 1
    bench.served = True
    bench.kept.expire()
    bench.now += KEPT_S - 1
    bench.kept.expire()
    assert len(bench.kept) == 1
    bench.now += 1
    bench.kept.expire()
    assert len(bench.kept) == 0


def test_the_oldest_make_room() -> None:
    bench, work = Bench(limit=3), Work(record(0))
    bench.kept.keep_running(work)
    bench.accept(1, 2, 3)
    assert bench.metrics.kept_dropped == 1
    assert [bench.answered(offset) for offset in (0, 1, 2, 3)] == [True, False, True, True]
    assert bench.cancelled == []


def test_a_failure_is_kept_with_its_pause() -> None:
    bench, work = Bench(), Work(record(1))
    bench.kept.keep_running(work)
    work.error = error = OSError("no")
    bench.kept.failed(work, final=False, due=130.0)
    found = bench.kept.take(record(1, count=2), first=True)
    assert found is not None
    assert (found.error, found.final, found.due, found.answer) == (error, False, 130.0, None)


def test_the_end_says_what_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    bench.accept(*range(7))
    bench.kept.end()
    assert "jobs-0@4 and 2 more are dropped: the worker has ended" in caplog.text
    assert (len(bench.kept), bench.metrics.kept_dropped) == (0, 7)


# --- order per key --------------------------------------------------------------------------------


def test_a_later_result_is_worthless_when_others_have_an_earlier_record() -> None:
    bench = Bench(ordered=True)
    bench.accept(1, 4, 6, key=b"ann")
    bench.accept(2, 5, key=b"bob")
    assert not bench.answered(4, key=b"ann"), "1 did not come back: somebody else has handled it"
    assert not bench.answered(6, key=b"ann")
    assert (bench.answered(2, key=b"bob"), bench.answered(5, key=b"bob")) == (True, True)
    assert bench.metrics.kept_dropped == 3


def test_a_later_result_is_worthless_when_an_earlier_record_is_handled_again() -> None:
    bench, work = Bench(ordered=True), Work(record(4, key=b"ann"))
    bench.kept.keep_running(work)
    assert not bench.answered(1, key=b"ann")
    assert (bench.cancelled, len(bench.kept)) == ([work], 0)


def test_a_record_that_stands_in_line_is_handled_in_its_turn() -> None:
    bench = Bench(ordered=True)
    bench.accept(4, key=b"ann")
    assert not bench.answered(4, key=b"ann", first=False)
    assert bench.metrics.kept_dropped == 1


@pytest.mark.parametrize("seed", range(50))
def test_counts_agree_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    bench = Bench(ordered=chance.random() < 0.5, limit=5)
    running: list[Work] = []
    for _ in range(300):
        one = record(
            chance.randrange(12), count=chance.choice((2, 4)), key=chance.choice((b"a", b"b"))
        )
        match chance.randrange(6):
            case 0 if all(work.record.offset != one.offset for work in running):
                running.append(Work(one))
                bench.kept.keep_running(running[-1])
            case 1:
                bench.kept.keep_answer(one, AckType.ACCEPT, None)
            case 2 if running:
                bench.kept.ended(running.pop(), AckType.REJECT, "why")
            case 3 if running:
                bench.kept.failed(running.pop(), final=True)
            case 4:
                bench.kept.take(one, first=chance.random() < 0.8)
            case _:
                bench.now += chance.choice((0.0, KEPT_S / 3))
                bench.kept.expire()
        still = [kept for kept in bench.kept._kept.values() if kept.work is not None]
        assert bench.kept.running == len(still)
        assert len(bench.kept) <= 5 + len(still)
        by_key = {(kept.key, at) for (_, at), kept in bench.kept._kept.items() if kept.key}
        assert by_key == {(key, at) for key, ats in bench.kept._of_key.items() for at in ats}
    bench.kept.end()
    assert (len(bench.kept), bench.kept.running) == (0, 0)
