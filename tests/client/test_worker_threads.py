"""``sharegroup.sync.ShareConsumer.run``: handlers in threads."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sharegroup.client import Backoff, IllegalState, Record
from sharegroup.model.errors import ConfigError
from sharegroup.sync import ShareConsumer
from sharegroup.sync.worker_threads import HandlerThreads
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.client.working import WAIT_S, fresh, run


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalBroker]:
    """One broker for the whole file."""
    with broker() as running:
        yield running


def jobs(kafka: LocalBroker, count: int) -> tuple[str, str]:
    topic, group = fresh("jobs"), fresh("workers")
    kafka.create_topic(topic)
    kafka.configure_group(group, share_auto_offset_reset="earliest")
    kafka.produce(topic, [str(number) for number in range(count)])
    return topic, group


def member(kafka: LocalBroker, topic: str, group: str) -> ShareConsumer:
    return ShareConsumer(topic, group_id=group, bootstrap_servers=kafka.bootstrap)


def worker_metrics(consumer: ShareConsumer) -> dict[str, float]:
    values = consumer._read_metrics() if consumer._thread is None else consumer.metrics()
    return {name: value for (group, name), value in values.items() if "worker" in group}


class Counting:
    """Stops the consumer when so many records are done."""

    def __init__(self, consumer: ShareConsumer, count: int) -> None:
        self.consumer = consumer
        self.left = count
        self.lock = threading.Lock()

    def one(self) -> None:
        with self.lock:
            self.left -= 1
            if self.left == 0:
                self.consumer.stop()


def test_threads_fill_all_slots_and_signal_handlers_are_restored(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 40)
    consumer = member(kafka, topic, group)
    together = threading.Barrier(20, timeout=WAIT_S)
    counting = Counting(consumer, 40)
    names = set()

    def handler(record: Record) -> None:
        together.wait()
        names.add(threading.current_thread().name)
        counting.one()

    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    consumer.run(handler, concurrency=20)
    assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
    assert len(names) == 20
    assert kafka.group(group)[topic, 0].start_offset == 40
    with pytest.raises(IllegalState, match="closed"):
        consumer.poll()


def test_a_stop_before_the_run_is_refused_and_one_after_it_does_nothing(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 1)
    consumer = member(kafka, topic, group)
    with pytest.raises(IllegalState, match="run\\(\\) was not called"):
        consumer.stop()
    consumer.run(lambda record: consumer.stop())
    consumer.stop()
    assert kafka.group(group)[topic, 0].start_offset == 1


def test_it_runs_outside_of_the_main_thread(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 3)
    consumer = member(kafka, topic, group)
    counting = Counting(consumer, 3)
    thread = threading.Thread(target=consumer.run, args=(lambda record: counting.one(),))
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert kafka.group(group)[topic, 0].start_offset == 3


class Quit(SystemExit):
    def __repr__(self) -> str:
        raise AttributeError("row")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: SystemExit(3), "the handler raised SystemExit(3)"),
        (Quit, "the handler raised <a Quit that has no text>"),
        (lambda: StopIteration(), "the handler raised StopIteration"),
        (lambda: ValueError("no"), "no"),
    ],
)
def test_what_handlers_raise(
    kafka: LocalBroker,
    caplog: pytest.LogCaptureFixture,
    wrong: Callable[[], BaseException],
    said: str,
) -> None:
    topic, group = jobs(kafka, 1)
    consumer = member(kafka, topic, group)

    def handler(record: Record) -> None:
        if record.delivery_count == 1:
            raise wrong()
        consumer.stop()

    consumer.run(handler, retry=Backoff(first_s=0))
    assert kafka.group(group)[topic, 0].start_offset == 1
    assert said in caplog.text
    assert "raise wrong()" in caplog.text, "the handler's own line"


def test_a_handler_that_takes_too_long_keeps_its_slot(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 2)
    consumer = member(kafka, topic, group)
    failed, running = threading.Event(), []
    counting = Counting(consumer, 2)

    def handler(record: Record) -> None:
        running.append(record.value)
        if record.delivery_count == 1 and record.value == b"0":
            failed.wait(WAIT_S)
        assert len(running) == 1, "two handlers in one slot"
        running.clear()
        if record.value == b"1" or record.delivery_count == 2:
            counting.one()

    def watch() -> None:
        kafka.wait_until(
            lambda: worker_metrics(consumer).get("failed-total") == 1, timeout_s=WAIT_S
        )
        failed.set()

    watching = threading.Thread(target=watch)
    watching.start()
    consumer.run(handler, concurrency=1, prefetch=0, timeout_s=0.5, retry=Backoff(first_s=0))
    watching.join(WAIT_S)
    assert kafka.group(group)[topic, 0].start_offset == 2


def test_what_was_cancelled_before_a_thread_was_free_is_not_handled() -> None:
    began, may_end = threading.Event(), threading.Event()
    handled: list[object] = []

    def handler(record: object) -> None:
        handled.append(record)
        began.set()
        may_end.wait(WAIT_S)

    async def scenario() -> None:
        freed = asyncio.Event()
        threads = HandlerThreads(handler, 1, asyncio.get_running_loop())
        threads.on_freed = freed.set
        records: list[Any] = ["hangs", "waits", "comes later"]
        hangs, waits, later = (asyncio.ensure_future(threads.handle(one)) for one in records)
        await asyncio.to_thread(began.wait, WAIT_S)
        hangs.cancel()
        waits.cancel()
        await asyncio.wait([hangs, waits])
        assert threads.overdue == 1, "only what runs takes a slot"
        may_end.set()
        await freed.wait()
        await later
        assert (handled, threads.overdue) == (["hangs", "comes later"], 0)
        threads.close()

    run(scenario)


def test_a_coroutine_function_is_refused(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 1)

    async def handler(record: Record) -> None: ...

    refused: Any = member(kafka, topic, group)
    with refused, pytest.raises(ConfigError, match="must be a plain function"):
        refused.run(handler)
    with member(kafka, topic, group) as heir:
        assert len(heir.poll(timeout_ms=120_000)) == 1
