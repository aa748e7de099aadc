"""``ShareConsumer.run`` while the broker is away: handlers go on, and their results are kept."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

from sharegroup import sync
from sharegroup.client import Backoff, Record, Reject, ShareConsumer
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.client.worker_jobs import jobs, member, until, work, worker_metrics
from tests.client.working import WAIT_S, fresh, run

AT_ONCE = Backoff(first_s=0.0)


@pytest.fixture
def kafka() -> Iterator[LocalBroker]:
    """A broker of its own for each test: it is killed."""
    with broker() as running:
        yield running


class Handling:
    """A handler that ends when it may, and counts its calls."""

    def __init__(self) -> None:
        self.calls: Counter[int] = Counter()
        self.cancelled = 0
        self.let_go = asyncio.Event()

    async def __call__(self, record: Record) -> None:
        self.calls[int(record.value or b"")] += 1
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


async def killed(kafka: LocalBroker, consumer: ShareConsumer, kept: int) -> None:
    """Kill the broker; the worker has noticed."""
    await asyncio.to_thread(kafka.kill)
    await until(lambda: worker_metrics(consumer)["kept"] == kept)


async def in_flight(consumer: ShareConsumer, count: int) -> None:
    await until(lambda: worker_metrics(consumer).get("in-flight") == count)


@pytest.mark.parametrize("ends", ["while it is away", "when it is back"])
def test_no_handler_runs_twice(kafka: LocalBroker, ends: str) -> None:
    topic, group = jobs(kafka, 3)

    async def scenario() -> None:
        handler, consumer = Handling(), member(kafka, topic, group)

        async def restart() -> None:
            await in_flight(consumer, 3)
            await killed(kafka, consumer, 3)
            if ends == "while it is away":
                handler.let_go.set()
                await in_flight(consumer, 0)
                assert worker_metrics(consumer)["kept"] == 3
            await asyncio.to_thread(kafka.start)
            await until(lambda: worker_metrics(consumer)["kept"] == 0)
            handler.let_go.set()

        restarting = asyncio.create_task(restart())
        seen = await work(
            consumer, handler, lambda m: restarting.done() and m["handled-total"] == 3
        )
        await restarting
        assert (seen["kept-answered-total"], seen["kept-dropped-total"]) == (3, 0)
        assert (seen["lost-locks-total"], seen["handled-total"]) == (3, 3)
        assert (handler.calls, handler.cancelled) == ({0: 1, 1: 1, 2: 1}, 0)

    run(scenario)
    assert kafka.group(group)[topic, 0].start_offset == 3


def test_an_answer_that_did_not_arrive_is_given_again(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 1)

    async def scenario() -> None:
        calls = []

        async def handler(record: Record) -> None:
            calls.append(record.offset)
            await asyncio.to_thread(kafka.kill)

        consumer = member(kafka, topic, group)

        async def restart() -> None:
            await until(lambda: worker_metrics(consumer).get("kept") == 1)
            await in_flight(consumer, 0)  # the client may miss the broker before the handler ends
            await asyncio.to_thread(kafka.start)

        restarting = asyncio.create_task(restart())
        seen = await work(consumer, handler, lambda m: m["kept-answered-total"] == 1)
        await restarting
        assert (calls, seen["handled-total"]) == ([0], 1)

    run(scenario)
    assert kafka.group(group)[topic, 0].start_offset == 1


def test_failures_are_kept_too(kafka: LocalBroker) -> None:
    """One that is final rejects; another one has its pause, and another try."""
    topic, group = jobs(kafka, 2)

    async def scenario() -> None:
        calls: Counter[bytes | None] = Counter()
        let_go = asyncio.Event()

        async def handler(record: Record) -> None:
            calls[record.value] += 1
            await let_go.wait()
            if record.value == b"0":
                raise Reject("never")
            if calls[record.value] == 1:
                raise OSError("not now")

        consumer = member(kafka, topic, group)

        async def restart() -> None:
            await in_flight(consumer, 2)
            await killed(kafka, consumer, 2)
            let_go.set()
            await in_flight(consumer, 0)
            await asyncio.to_thread(kafka.start)

        restarting = asyncio.create_task(restart())
        seen = await work(
            consumer,
            handler,
            lambda m: m["rejected-total"] == 1 and m["handled-total"] == 1,
            retry=Backoff(first_s=0.05),
        )
        await restarting
        assert calls == {b"0": 1, b"1": 2}
        assert (seen["failed-total"], seen["retried-total"]) == (2, 0)
        assert (seen["kept-answered-total"], seen["kept-dropped-total"]) == (2, 0)

    run(scenario)
    assert kafka.group(group)[topic, 0].start_offset == 2


def test_a_result_is_dropped_if_another_member_has_had_the_record(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = jobs(kafka, 1)

    def take_and_give_back() -> None:
        with sync.ShareConsumer(
            topic,
            group_id=group,
            bootstrap_servers=kafka.bootstrap,
            acknowledgement_mode="explicit",
        ) as other:
            for _ in range(3):
                while not (found := other.poll()):
                    pass
                other.release(*found)
                other.commit()

    async def scenario() -> None:
        handler, consumer = Handling(), member(kafka, topic, group)

        async def restart() -> None:
            await in_flight(consumer, 1)
            await killed(kafka, consumer, 1)
            handler.let_go.set()
            await in_flight(consumer, 0)
            kafka.start()  # the worker's loop waits: nothing comes back to it yet
            take_and_give_back()

        restarting = asyncio.create_task(restart())
        seen = await work(consumer, handler, lambda m: m["handled-total"] == 2)
        await restarting
        assert (seen["kept-answered-total"], seen["kept-dropped-total"]) == (0, 1)
        assert handler.calls == {0: 2}

    run(scenario)
    said = f"the result of {topic}-0@0 is dropped: another member has had the record since"
    assert said in caplog.text


def test_handlers_are_cancelled_if_that_is_asked_for(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 1)

    async def scenario() -> None:
        handler, consumer = Handling(), member(kafka, topic, group)

        async def restart() -> None:
            await in_flight(consumer, 1)
            await asyncio.to_thread(kafka.kill)
            await until(lambda: handler.cancelled == 1)
            handler.let_go.set()
            await asyncio.to_thread(kafka.start)

        restarting = asyncio.create_task(restart())
        seen = await work(
            consumer, handler, lambda m: m["handled-total"] == 1, cancel_when_lost=True
        )
        await restarting
        assert (handler.calls, seen["kept-answered-total"]) == ({0: 2}, 0)

    run(scenario)


@pytest.mark.parametrize("asked", [None, False])
def test_order_per_key_is_kept(kafka: LocalBroker, asked: bool | None) -> None:
    """Handlers are cancelled unless it is asked for: others may have later records of the key."""
    topic, group = fresh("keyed"), fresh("ordered")
    kafka.create_topic(topic)
    kafka.configure_group(group, share_auto_offset_reset="earliest", share_ordering="key")
    kafka.produce(topic, [("ann", "0"), ("ann", "1"), ("bob", "2"), ("ann", "3")])

    async def scenario() -> None:
        order: list[int] = []
        consumer = member(kafka, topic, group)
        let_go = asyncio.Event()

        async def handler(record: Record) -> None:
            await let_go.wait()
            order.append(int(record.value or b""))

        async def restart() -> None:
            await in_flight(consumer, 2)
            await killed(kafka, consumer, 2 if asked is False else 0)
            if asked is None:
                await in_flight(consumer, 0)  # cancelled
            let_go.set()
            await in_flight(consumer, 0)
            await asyncio.to_thread(kafka.start)

        restarting = asyncio.create_task(restart())
        seen = await work(
            consumer, handler, lambda m: m["handled-total"] == 4, cancel_when_lost=asked
        )
        await restarting
        assert (sorted(order), [one for one in order if one != 2]) == ([0, 1, 2, 3], [0, 1, 3])
        assert seen["kept-answered-total"] == (2 if asked is False else 0)

    run(scenario)
    assert kafka.group(group)[topic, 0].start_offset == 4


def test_a_stop_while_the_broker_is_away_ends_and_says_what_is_lost(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = jobs(kafka, 2)

    async def scenario() -> None:
        handler = Handling()
        consumer = member(kafka, topic, group, request_timeout_ms=500)

        async def stop() -> None:
            await in_flight(consumer, 2)
            await killed(kafka, consumer, 2)
            consumer.stop()
            handler.let_go.set()

        stopping = asyncio.create_task(stop())
        seen = await work(consumer, handler, lambda _: False)
        await stopping
        assert (seen["handled-total"], seen["kept-dropped-total"]) == (2, 2)
        assert (handler.calls, handler.cancelled) == ({0: 1, 1: 1}, 0)

    run(scenario)
    assert (
        f"the results of {topic}-0@0, {topic}-0@1 are dropped: the worker has ended" in caplog.text
    )


def test_threads(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 2)
    calls: Counter[bytes | None] = Counter()
    let_go = threading.Event()
    consumer = sync.ShareConsumer(topic, group_id=group, bootstrap_servers=kafka.bootstrap)

    def handler(record: Record) -> None:
        calls[record.value] += 1
        let_go.wait(WAIT_S)

    def figures() -> dict[str, float]:
        return {name: value for (_, name), value in consumer.metrics().items()}

    def restart() -> None:
        kafka.wait_until(lambda: figures().get("in-flight") == 2, timeout_s=WAIT_S)
        kafka.kill()
        kafka.wait_until(lambda: figures()["kept"] == 2, timeout_s=WAIT_S)
        kafka.start()
        kafka.wait_until(lambda: figures()["kept-answered-total"] == 2, timeout_s=WAIT_S)
        let_go.set()
        kafka.wait_until(lambda: figures()["handled-total"] == 2, timeout_s=WAIT_S)
        consumer.stop()

    restarting = threading.Thread(target=restart)
    restarting.start()
    consumer.run(handler)
    restarting.join(WAIT_S)
    assert calls == {b"0": 1, b"1": 1}
    assert kafka.group(group)[topic, 0].start_offset == 2
