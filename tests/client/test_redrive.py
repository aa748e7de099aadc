"""Redrives dead letters with real brokers."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sharegroup import sync
from sharegroup.client import Admin, Producer, ProducerFenced, Record, ShareConsumer
from sharegroup.client.core.dead_letter import LettersProgress
from sharegroup.client.dead_letters.handling import BATCHES_PER_S
from sharegroup.model.errors import ConfigError, MessageTooLarge, UnknownTopicOrPartition
from sharegroup.model.ids import TopicPartition
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.client.dead_letters import jobs_and_letters, read_all, said, values, write_letters
from tests.client.working import WAIT_S, eventually, fresh, run


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalBroker]:
    with broker(configs={"auto.create.topics.enable": False}) as running:
        yield running


def test_each_letter_goes_back_once_and_in_order(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        await write_letters(kafka, dead, group, topic, range(100))
        async with Admin(kafka.bootstrap) as admin:
            first = await admin.redrive_dead_letters(group)
            second = await admin.redrive_dead_letters(group)
            assert (first.done, second.done) == (100, 0)
        found = await read_all(kafka, topic)
        for number in (0, 1):
            own = [int(one.value) for one in found if one.partition == number]
            assert own == list(range(number, 100, 2))
        assert all(
            one.headers == [("own", one.value), ("sharegroup.redriven", b"1")] for one in found
        )
        assert {one.key for one in found} == {b"k0", b"k1", b"k2"}

    run(scenario)


def test_new_letters_are_redriven_by_the_next_call(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        async with Admin(kafka.bootstrap) as admin:
            for first in (0, 10):
                await write_letters(kafka, dead, group, topic, range(first, first + 10))
                assert (await admin.redrive_dead_letters(group)).done == 10
        assert await values(kafka, topic) == list(range(20))

    run(scenario)


def test_letters_in_the_middle_are_chosen_and_the_rest_follows(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        await write_letters(kafka, dead, group, topic, range(100))
        async with Admin(kafka.bootstrap) as admin:
            some = await admin.redrive_dead_letters(group, where='key == "k1"')
            assert (some.done, some.passed) == (33, 67)
            assert (await admin.redrive_dead_letters(group, where='key == "k1"')).done == 0
            assert await values(kafka, topic) == list(range(1, 100, 3))
            assert (await admin.redrive_dead_letters(group, letters_max=7)).done == 7
            left = await admin.list_dead_letters(group)
            assert len(left) == 60
            assert (await admin.redrive_dead_letters(group)).done == 60
        assert await values(kafka, topic) == list(range(100))

    run(scenario)


def test_a_dry_run_changes_nothing(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        await write_letters(kafka, dead, group, topic, range(10))
        async with Admin(kafka.bootstrap) as admin:
            dry = await admin.redrive_dead_letters(group, dry_run=True, letters_max=6)
            assert dry.done == 6
            assert await values(kafka, topic) == []
            assert (await admin.redrive_dead_letters(group)).done == 10

    run(scenario)


def test_purged_letters_are_done_and_nothing_is_sent(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        await write_letters(kafka, dead, group, topic, range(10))
        async with Admin(kafka.bootstrap) as admin:
            assert (await admin.purge_dead_letters(group, where="offset < 4")).done == 4
            assert (await admin.redrive_dead_letters(group)).done == 6
        assert await values(kafka, topic) == list(range(4, 10))

    run(scenario)


def test_another_topic_gets_the_records_by_key(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)
    goal = fresh("again")
    kafka.create_topic(goal, 2)

    async def scenario() -> None:
        await write_letters(kafka, dead, group, topic, range(30))
        async with Admin(kafka.bootstrap) as admin:
            with pytest.raises(ConfigError, match="name another topic"):
                await admin.redrive_dead_letters(group, to=dead)
            with pytest.raises(UnknownTopicOrPartition):
                await admin.redrive_dead_letters(group, to="nowhere")
            assert (await admin.redrive_dead_letters(group, to=goal)).done == 30
        found = await read_all(kafka, goal)
        assert len({(one.key, one.partition) for one in found}) == 3
        assert await values(kafka, topic) == []

    run(scenario)


def test_letters_of_apache_kafka_without_copies(kafka: LocalBroker) -> None:
    """Their headers have no cause and no time; key and value are null."""
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        async with Producer(kafka.bootstrap) as producer, Admin(kafka.bootstrap) as admin:
            for number in range(20):
                await producer.send(
                    topic, str(number), key="k", headers=[("own", b"%d" % number)], partition=0
                )
            for number in (3, 5, 17, 18):
                await producer.send(dead, headers=said(group, topic, 0, number), partition=0)
            await producer.send(dead, headers=said("others", topic, 0, 4), partition=0)
            await producer.send(dead, b"no letter", partition=0)
            await admin.delete_records({TopicPartition(topic, 0): 5})
            letters = await admin.list_dead_letters(group)
            assert [(one.offset, one.cause, one.deliveries, one.has_copy) for one in letters] == [
                (number, None, 5, False) for number in (3, 5, 17, 18)
            ]
            by_key = await admin.redrive_dead_letters(
                group, where='headers["own"] == "17"', dry_run=True
            )
            assert by_key.done == 1
            found = await admin.redrive_dead_letters(group)
            assert (found.done, found.gone, found.others) == (3, 1, 2)
            again = await admin.redrive_dead_letters(group)
            assert (again.done, again.gone) == (0, 1), "it is left, and said again"
        records = (await read_all(kafka, topic))[15:]
        assert [(one.key, one.value, one.headers[0]) for one in records] == [
            (b"k", b"%d" % number, ("own", b"%d" % number)) for number in (5, 17, 18)
        ]

    run(scenario)


def test_apache_kafkas_copies_have_no_headers(kafka: LocalBroker) -> None:
    """They are those of the record in the source topic, if that is the same record."""
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        async with Producer(kafka.bootstrap) as producer, Admin(kafka.bootstrap) as admin:
            for number in range(3):
                await producer.send(topic, str(number), headers=[("own", b"1")], partition=0)
            for number, value in ((0, "0"), (1, "1"), (2, "another")):
                headers = said(group, topic, 0, number)
                await producer.send(dead, value, headers=headers, partition=0)
            await admin.delete_records({TopicPartition(topic, 0): 1})
            found = await admin.redrive_dead_letters(group)
            assert (found.done, found.gone) == (3, 0)
        own, times = ("own", b"1"), ("sharegroup.redriven", b"1")
        assert [(one.value, one.headers) for one in (await read_all(kafka, topic))[2:]] == [
            (b"0", [times]),
            (b"1", [own, times]),
            (b"another", [times]),
        ]

    run(scenario)


def test_a_letter_whose_topic_is_gone_is_left(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        await write_letters(kafka, dead, group, "gone", range(3))
        await write_letters(kafka, dead, group, topic, range(3, 6))
        async with Admin(kafka.bootstrap) as admin:
            found = await admin.redrive_dead_letters(group)
            assert (found.done, found.homeless) == (3, 3)
            assert (await admin.redrive_dead_letters(group, to=topic)).done == 3
        assert await values(kafka, topic) == list(range(6))

    run(scenario)


def test_two_letters_about_one_failure_are_one_record(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        async with Admin(kafka.bootstrap) as admin:
            await write_letters(kafka, dead, group, topic, range(10), failed_ms=7)
            await write_letters(kafka, dead, group, topic, range(8), failed_ms=7)
            await write_letters(kafka, dead, group, topic, range(1), failed_ms=8)
            found = await admin.redrive_dead_letters(group)
            assert (found.done, found.twins) == (11, 8)
            assert (await admin.redrive_dead_letters(group)).twins == 0
        assert await values(kafka, topic) == [0, *range(10)]

    run(scenario)


def test_a_second_letter_behind_the_last_transaction_is_done_too(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        async with Admin(kafka.bootstrap) as admin:
            await write_letters(kafka, dead, group, topic, range(10), failed_ms=7)
            await write_letters(kafka, dead, group, topic, range(8), failed_ms=7)
            found = await admin.redrive_dead_letters(group, rate=10 * BATCHES_PER_S)
            assert (found.done, found.twins) == (10, 8)
            again = await admin.redrive_dead_letters(group)
            assert (again.done, again.twins) == (0, 0)
        assert await values(kafka, topic) == [*range(10)]

    run(scenario)


def test_a_second_letter_is_known_by_the_next_call(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        async with Admin(kafka.bootstrap) as admin:
            await write_letters(kafka, dead, group, topic, range(10), failed_ms=7)
            await write_letters(kafka, dead, group, topic, range(8), failed_ms=7)
            await write_letters(kafka, dead, group, topic, range(10, 12), failed_ms=7)
            first = await admin.redrive_dead_letters(group, letters_max=3)
            later = await admin.redrive_dead_letters(group)
            assert (first.done + later.done, first.twins + later.twins) == (12, 8)
        assert await values(kafka, topic) == [*range(12)]

    run(scenario)


def test_a_second_letter_is_known_where_letters_before_it_were_left(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        async with Admin(kafka.bootstrap) as admin:
            await write_letters(kafka, dead, group, topic, range(10), failed_ms=7)
            some = await admin.redrive_dead_letters(group, where="offset >= 4")
            assert some.done == 6
            await write_letters(kafka, dead, group, topic, range(8), failed_ms=7)
            rest = await admin.redrive_dead_letters(group)
            assert (rest.done, rest.twins) == (4, 8)
        assert await values(kafka, topic) == [*range(10)]

    run(scenario)


@pytest.mark.parametrize("copies", ["true", "false"])
def test_a_rejected_record_comes_again_with_its_headers(kafka: LocalBroker, copies: str) -> None:
    topic, dead, group = fresh("jobs"), fresh("dlq.dead"), fresh("workers")
    kafka.create_topic(topic)
    kafka.create_topic(dead, errors_deadletterqueue_group_enable="true")
    kafka.configure_group(
        group,
        share_auto_offset_reset="earliest",
        errors_deadletterqueue_topic_name=dead,
        errors_deadletterqueue_copy_record_enable=copies,
    )

    async def scenario() -> None:
        async with (
            Producer(kafka.bootstrap) as producer,
            Admin(kafka.bootstrap) as admin,
            ShareConsumer(
                topic,
                group_id=group,
                bootstrap_servers=kafka.bootstrap,
                acknowledgement_mode="explicit",
            ) as consumer,
        ):
            await producer.send(topic, b"job", key=b"k", headers=[("own", b"1")])
            for times in range(3):
                records: list[Record] = []
                async with asyncio.timeout(WAIT_S):
                    while not records:
                        records = await consumer.poll()
                [record] = records
                assert (record.key, record.value) == (b"k", b"job")
                assert dict(record.headers) == {"own": b"1"} | (
                    {"sharegroup.redriven": b"%d" % times} if times else {}
                )
                consumer.reject(record, reason=f"no {times}")
                await consumer.commit()
                [letter] = await eventually(lambda: admin.list_dead_letters(group), bool)
                assert (letter.cause, letter.message) == ("rejected", f"no {times}")
                assert (letter.deliveries, letter.has_copy) == (1, copies == "true")
                assert (await admin.redrive_dead_letters(group)).done == 1

    run(scenario)


def test_a_letter_that_its_goal_refuses_is_named(
    kafka: LocalBroker, caplog: pytest.LogCaptureFixture
) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        async with Producer(kafka.bootstrap) as producer, Admin(kafka.bootstrap) as admin:
            await write_letters(kafka, dead, group, topic, range(10))
            large = said(group, topic, 0, 10, timestamp=1)
            await producer.send(dead, b"1" * 5_000, headers=large, partition=0)
            await write_letters(kafka, dead, group, topic, range(11, 20))
            await admin.alter_configs("topic", topic, {"max.message.bytes": "3000"})
            with pytest.raises(MessageTooLarge):
                await admin.redrive_dead_letters(group)
            lines = [one.getMessage() for one in caplog.records]
            [said_so] = [line for line in lines if line.startswith("the record of the letter")]
            left, _, where = said_so.partition(" --where ")
            assert left == "the record of the letter 0:5 is refused; leave it out:"
            assert (await admin.redrive_dead_letters(group, where=where.strip("'"))).done == 19
        assert await values(kafka, topic) == [n for n in range(20) if n != 10]

    run(scenario)


def test_records_larger_than_a_producers_default(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        async with (
            Producer(kafka.bootstrap, max_request_size=9_000_000) as producer,
            Admin(kafka.bootstrap) as admin,
        ):
            for name in (topic, dead):
                await admin.alter_configs("topic", name, {"max.message.bytes": "9000000"})
            for number in range(10):
                headers = said(group, topic, 0, number, timestamp=1)
                await producer.send(dead, b"1" * 4_000_000, headers=headers, partition=0)
            done: list[int] = []
            await admin.redrive_dead_letters(group, told=lambda said: done.append(said.done))
            assert done == [0, 0, 9, 9, 10], "not all in one transaction: they take memory"
        found = await read_all(kafka, topic)
        assert [len(one.value or b"") for one in found] == [4_000_000] * 10

    run(scenario)


def test_a_record_that_dies_again_is_counted(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        headers = said(group, topic, 0, 0, timestamp=1)
        async with Producer(kafka.bootstrap) as producer, Admin(kafka.bootstrap) as admin:
            await producer.send(dead, b"1", headers=[("sharegroup.redriven", b"4"), *headers])
            await admin.redrive_dead_letters(group)
        [record] = await read_all(kafka, topic)
        assert record.headers == [("sharegroup.redriven", b"5")]

    run(scenario)


def test_a_second_redrive_takes_over(kafka: LocalBroker) -> None:
    """The first one is in its transaction when the second one begins."""
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        await write_letters(kafka, dead, group, topic, range(10))
        sent, loop = asyncio.Event(), asyncio.get_running_loop()
        reached = loop.create_future()

        def wait(progress: LettersProgress) -> None:
            if progress.step == "sent" and not reached.done():
                reached.set_result(None)
                # the first one's commit comes after the second one's fence
                loop.run_in_executor(None, second).add_done_callback(lambda _: sent.set())
                taken_over.wait(WAIT_S)

        taken_over = threading.Event()
        results: list[int] = []

        def second() -> None:
            def begun(progress: LettersProgress) -> None:
                taken_over.set()

            with sync.Admin(kafka.bootstrap) as admin:
                results.append(admin.redrive_dead_letters(group, told=begun).done)

        async with Admin(kafka.bootstrap) as admin:
            with pytest.raises(ProducerFenced):
                await admin.redrive_dead_letters(group, told=wait)
        await sent.wait()
        assert results == [10]
        assert await values(kafka, topic) == list(range(10))

    run(scenario)


def test_a_cancelled_redrive_is_resumed(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def cancelled_at(admin: Admin, step: int) -> None:
        steps = itertools.count()

        def told(progress: LettersProgress) -> None:
            if next(steps) == step:
                running.cancel()

        running = asyncio.create_task(admin.redrive_dead_letters(group, told=told, letters_max=3))
        with suppress(asyncio.CancelledError):
            await running

    async def scenario() -> None:
        await write_letters(kafka, dead, group, topic, range(40))
        async with Admin(kafka.bootstrap) as admin:
            for step in (0, 1, 2, 3, 0, 2):
                await cancelled_at(admin, step)
            await admin.redrive_dead_letters(group)
        assert await values(kafka, topic) == list(range(40))

    run(scenario)


def test_a_cancellation_waits_for_the_transaction(kafka: LocalBroker) -> None:
    """So nobody who reads uncommitted records sees a record twice."""
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        await write_letters(kafka, dead, group, topic, range(10))
        steps: list[str] = []

        def told(progress: LettersProgress) -> None:
            steps.append(f"{progress.step} {progress.done}")
            if progress.step == "sent":
                running.cancel()

        async with Admin(kafka.bootstrap) as admin:
            running = asyncio.create_task(
                admin.redrive_dead_letters(group, told=told, letters_max=4)
            )
            with pytest.raises(asyncio.CancelledError):
                await running
            assert steps == ["begun 0", "sent 0", "committed 4"]
            assert (await admin.redrive_dead_letters(group)).done == 6

    run(scenario)
    assert sorted(int(value or b"") for value in kafka.values(topic)) == list(range(10))


def test_a_second_cancellation_does_not_wait(kafka: LocalBroker) -> None:
    topic, dead, group = jobs_and_letters(kafka)

    async def scenario() -> None:
        await write_letters(kafka, dead, group, topic, range(10))

        def told(progress: LettersProgress) -> None:
            if progress.step == "sent":
                kafka.stop()  # the transaction cannot end
                running.cancel()
                loop.call_soon(loop.call_soon, running.cancel)

        loop = asyncio.get_running_loop()
        async with Admin(kafka.bootstrap) as admin:
            running = asyncio.create_task(admin.redrive_dead_letters(group, told=told))
            with pytest.raises(asyncio.CancelledError):
                await running
            kafka.start()
            await admin.redrive_dead_letters(group)
        assert await values(kafka, topic) == list(range(10))

    run(scenario)
