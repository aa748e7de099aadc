"""``ShareConsumer.run``: locks that are kept or lost, how it begins, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sharegroup.broker import features
from sharegroup.client import Backoff, IllegalState, Record, ShareConsumer
from sharegroup.client.worker.locks import WorkerLocks
from sharegroup.client.worker.retry import LETS_REST
from sharegroup.client.worker.settings import SIGNALS
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.client.worker_jobs import jobs, member, nothing, until, work, worker_metrics
from tests.client.working import poll_until, run

AT_ONCE = Backoff(first_s=0.0)


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalBroker]:
    """One broker for the whole file."""
    with broker(configs={"auto.create.topics.enable": False}) as running:
        yield running


# --- locks ----------------------------------------------------------------------------------------


def test_locks_are_renewed_while_handlers_run_and_records_wait(kafka: LocalBroker) -> None:
    kafka_of_short_locks = broker(configs={"group.share.min.record.lock.duration.ms": 1_000})

    async def scenario(short: LocalBroker, topic: str, group: str) -> None:
        consumer = member(short, topic, group)
        sent = ("consumer-share-fetch-manager-metrics", "acknowledgements-send-total")
        deliveries: list[int] = []

        async def handler(record: Record) -> None:
            deliveries.append(record.delivery_count)
            if record.value == b"0":
                # Each second both are renewed: this takes longer than a lock.
                await until(lambda: consumer.metrics()[sent] >= 8)

        async with member(short, topic, group) as other:
            working = asyncio.create_task(
                work(consumer, handler, lambda m: m["handled-total"] == 2, concurrency=1)
            )
            await until(lambda: worker_metrics(consumer).get("waiting") == 1)
            while not working.done():
                assert await other.poll(100) == []
            await working
        assert deliveries == [1, 1]

    with kafka_of_short_locks as short:
        names = jobs(short, 2, share_record_lock_duration_ms=3_000)
        run(lambda: scenario(short, *names))


def test_without_renewal_a_retry_pause_ends_before_the_lock(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(features.FEATURES, LETS_REST)  # the worker holds what rests

    async def handler(record: Record) -> None:
        if record.delivery_count == 1:
            raise ValueError("no")

    async def scenario(consumer: ShareConsumer) -> None:
        seen = await work(
            consumer, handler, lambda m: m["handled-total"] == 1, retry=Backoff(first_s=3_600)
        )
        assert (seen["retried-total"], seen["lost-locks-total"]) == (1, 0)

    with broker(configs={"group.share.min.record.lock.duration.ms": 1_000}) as short:
        topic, group = jobs(
            short, 1, share_record_lock_duration_ms=3_000, share_renew_acknowledge_enable=False
        )
        run(lambda: scenario(member(short, topic, group)))
    assert f"the group {group} does not let locks be renewed" in caplog.text


def test_the_handler_of_a_lost_record_is_cancelled(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 1)

    async def scenario() -> None:
        deliveries: list[int] = []
        cancelled: list[int] = []

        async def handler(record: Record) -> None:
            deliveries.append(record.delivery_count)
            if record.delivery_count == 1:
                kafka.advance(seconds=31)
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.append(record.delivery_count)
                    raise

        seen = await work(member(kafka, topic, group), handler, lambda m: m["handled-total"] == 1)
        assert (deliveries, cancelled, seen["lost-locks-total"]) == ([1, 2], [1], 1)

    run(scenario)


def test_one_late_acknowledgement_does_not_fail_others(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 1)

    async def scenario() -> None:
        both_run, let_go = asyncio.Event(), asyncio.Event()

        async def handler(record: Record) -> None:
            if record.value == b"0":
                kafka.advance(seconds=20)
                kafka.produce(topic, ["1"])
            else:
                both_run.set()
            await let_go.wait()

        async def take_the_first(consumer: ShareConsumer) -> None:
            await both_run.wait()
            kafka.advance(seconds=11)  # its lock is over, that of the second is not
            async with member(kafka, topic, group) as other:
                [taken] = await poll_until(other, 1)
                let_go.set()  # both are answered in one request
                await until(lambda: worker_metrics(consumer)["lost-locks-total"] == 1)
                await other.commit()
            assert taken.delivery_count == 2

        consumer = member(kafka, topic, group)
        taking = asyncio.create_task(take_the_first(consumer))
        await work(consumer, handler, lambda _: taking.done(), concurrency=2, prefetch=0)
        await taking

    run(scenario)
    assert kafka.group(group)[topic, 0].start_offset == 2


def test_renewals_detect_a_single_lost_lock(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 3)

    async def scenario() -> None:
        lost: list[tuple[TopicIdPartition, int]] = []
        settings = {"acknowledgement_mode": "explicit", "acquire_mode": "record_limit"}
        one = member(kafka, topic, group, max_poll_records=1, **settings)
        other = member(kafka, topic, group, max_poll_records=1, **settings)
        async with one, other:
            one._parts.holdings.leave_to_worker()
            await poll_until(one, 1)
            kafka.advance(seconds=20)
            await poll_until(one, 2)
            kafka.advance(seconds=11)
            [taken] = await poll_until(other, 1)
            keeper = WorkerLocks(one._parts.holdings, one._parts.member, renewing=True)
            keeper._on_lost = lambda partition, offset: lost.append((partition, offset))
            await keeper._renew_all()
        assert [offset for _, offset in lost] == [taken.offset] == [0]

    run(scenario)


# --- how it begins and ends -----------------------------------------------------------------------


def test_invalid_arguments_are_refused(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 1)

    async def refusal(consumer: ShareConsumer, handler: Any = nothing, **settings: Any) -> str:
        with pytest.raises((ConfigError, IllegalState)) as caught:
            await consumer.run(handler, **settings)
        await consumer.close()
        return str(caught.value)

    async def scenario() -> None:
        def new() -> ShareConsumer:
            return member(kafka, topic, group)

        for settings, said in [
            ({"concurrency": 0}, "concurrency is 0: it must be at least 1"),
            ({"prefetch": -1}, "prefetch is -1: it must be at least 0"),
            ({"timeout_s": 0}, "timeout_s is 0: it must be more than 0"),
            ({"drain_s": -1}, "drain_s is -1: it must be at least 0"),
            ({"create_dead_letter": True}, "create_dead_letter needs dead_letter"),
            ({"dead_letter": topic}, f"dead_letter is '{topic}', a topic that this consumer reads"),
            ({"dead_letter": "nope"}, "the dead-letter topic 'nope' does not exist: make it"),
        ]:
            assert (await refusal(new(), **settings)).startswith(said)
        assert "must be a coroutine function" in await refusal(new(), lambda record: None)
        with pytest.raises(IllegalState, match="nothing to stop"):
            new().stop()

        polled = new()
        await polled.poll(0)
        assert "needs a consumer that has polled nothing" in await refusal(polled)

        def poll_inside(consumer: ShareConsumer) -> Callable[[Record], Any]:
            async def handler(record: Record) -> None:
                with pytest.raises(IllegalState, match="run\\(\\) answers for its records"):
                    consumer.accept(record)
                with pytest.raises(IllegalState, match="this consumer gives records to run"):
                    await consumer.poll(0)

            return handler

        inside = new()
        seen = await work(inside, poll_inside(inside), lambda m: m["handled-total"] == 1)
        assert seen["failed-total"] == 0

    for word in ("first_s", "max_s", "factor", "jitter", "attempts"):
        with pytest.raises(ConfigError, match=f"^{word} is -1"):
            Backoff(**{word: -1})
    run(scenario)


def test_a_handler_that_takes_too_long_has_failed(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = jobs(kafka, 1)

    async def handler(record: Record) -> None:
        if record.delivery_count == 1:
            await asyncio.Event().wait()

    async def scenario() -> None:
        seen = await work(
            member(kafka, topic, group),
            handler,
            lambda m: m["handled-total"] == 1,
            timeout_s=0.05,
            retry=AT_ONCE,
        )
        assert (seen["failed-total"], seen["handler-time-max"] >= 50) == (1, True)

    run(scenario)
    assert "the handler took longer than 0.05 s" in caplog.text


@pytest.mark.parametrize("how", ["stop", "cancel", "wakeup", "cancel twice"])
def test_a_stop_finishes_running_handlers_and_releases_the_rest(
    kafka: LocalBroker, how: str
) -> None:
    topic, group = jobs(kafka, 40)

    async def scenario() -> None:
        done: list[bytes] = []
        let_go = asyncio.Event()

        async def handler(record: Record) -> None:
            if int(record.value) < 4:
                done.append(record.value)
                return
            await let_go.wait()
            done.append(record.value)

        consumer = member(kafka, topic, group)
        before = [signal.getsignal(one) for one in SIGNALS]
        working = asyncio.create_task(consumer.run(handler, concurrency=4, drain_s=60))
        await until(
            lambda: (
                worker_metrics(consumer).get("in-flight") == 4
                and worker_metrics(consumer)["waiting"] > 0
                and len(done) >= 4
            )
        )
        {"stop": consumer.stop, "wakeup": consumer.wakeup}.get(how, working.cancel)()
        await until(lambda: worker_metrics(consumer)["waiting"] == 0)
        if how == "cancel twice":
            working.cancel()
        else:
            let_go.set()
        await asyncio.wait([working])
        assert [signal.getsignal(one) for one in SIGNALS] == before
        assert working.cancelled() == how.startswith("cancel")
        assert len(done) == (4 if how == "cancel twice" else 8)

        async with member(kafka, topic, group) as heir:
            rest = await poll_until(heir, 40 - len(done))
            await heir.commit()
        assert sorted([int(one) for one in done] + [int(r.value) for r in rest]) == [*range(40)]

    run(scenario)
    assert kafka.group(group)[topic, 0].start_offset == 40


def test_records_of_the_last_fetch_are_released_before_handlers_end(kafka: LocalBroker) -> None:
    topic, group = jobs(kafka, 1, share_record_lock_duration_ms=60_000)  # longer than we wait

    async def scenario() -> None:
        runs, let_go = asyncio.Event(), asyncio.Event()

        async def handler(record: Record) -> None:
            runs.set()
            await let_go.wait()

        consumer = member(kafka, topic, group)
        working = asyncio.create_task(consumer.run(handler, drain_s=60))
        await runs.wait()
        await until(lambda: consumer._parts.member._rounds)  # a fetch waits at the broker
        consumer.stop()
        kafka.produce(topic, ["1"])
        async with member(kafka, topic, group) as other:
            [record] = await poll_until(other, 1)
            assert record.value == b"1"
            assert not working.done()
            await other.commit()
            let_go.set()
            await working

    run(scenario)
    assert kafka.group(group)[topic, 0].start_offset == 2


def test_handlers_that_do_not_end_are_cancelled_and_their_records_redelivered(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = jobs(kafka, 1)

    async def handler(record: Record) -> None:
        if record.delivery_count == 1:
            await asyncio.Event().wait()

    async def scenario() -> None:
        stuck = await work(
            member(kafka, topic, group), handler, lambda m: m["in-flight"] == 1, drain_s=0.0
        )
        assert (stuck["handled-total"], stuck["released-total"]) == (0, 1)
        again = await work(member(kafka, topic, group), handler, lambda m: m["handled-total"] == 1)
        assert again["released-total"] == 0

    with caplog.at_level(logging.INFO, "sharegroup.worker"):
        run(scenario)
    assert "handled 0, failed 0, retried 0, dead-lettered 0, rejected 0, released 1" in caplog.text


def test_the_end_of_the_program_is_no_failure_of_a_handler(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    """``asyncio.run`` cancels the handlers too. The group may deliver a record twice: a failure of
    the second delivery would give the record up."""
    topic, group = jobs(kafka, 2, share_delivery_count_limit=3)

    async def program() -> None:
        runs = asyncio.Event()

        async def handler(record: Record) -> None:
            if record.value == b"1":
                runs.set()
            await asyncio.Event().wait()

        consumer = member(kafka, topic, group)
        working = asyncio.create_task(consumer.run(handler, concurrency=2))
        await runs.wait()
        assert not working.done()

    async def heir() -> None:
        done = await work(
            member(kafka, topic, group), nothing, lambda m: m["handled-total"] == 2, drain_s=0.0
        )
        assert done["failed-total"] == 0

    with caplog.at_level(logging.INFO, "sharegroup.worker"):
        for _ in range(2):
            run(program)
            assert not kafka.group(group).members
    assert caplog.text.count("handled 0, failed 0, retried 0") == 2
    run(heir)
    assert kafka.group(group)[topic, 0].start_offset == 2
