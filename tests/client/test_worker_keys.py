"""``ShareConsumer.run`` in a group with order per key: handlers run in the order of their key."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from sharegroup.client import Backoff, Record, Reject, ShareConsumer
from sharegroup.model.errors import KafkaError
from sharegroup.model.ids import TopicPartition
from sharegroup.model.offsets import OffsetRange
from sharegroup.testing import broker
from sharegroup.testing.local_broker import LocalBroker
from tests.broker.authorization.clients import write_acls
from tests.client.worker_jobs import member, until, worker_metrics
from tests.client.working import fresh, run


@pytest.fixture(scope="module")
def kafka() -> Iterator[LocalBroker]:
    with broker() as running:
        yield running


def keyed(kafka: LocalBroker, keys: list[str], **configs: object) -> tuple[str, str]:
    """A topic with the values ``0`` … of these keys, and a group with order per key."""
    topic, group = fresh("keyed"), fresh("ordered")
    kafka.create_topic(topic)
    configs = {"share_auto_offset_reset": "earliest", "share_ordering": "key"} | configs
    kafka.configure_group(group, **configs)
    kafka.produce(topic, [(key, str(at)) for at, key in enumerate(keys)])
    return topic, group


class Effects:
    """What an application does with each record, by key, and whether it fails."""

    def __init__(self, fails: dict[int, int], never: frozenset[int] = frozenset()) -> None:
        self.fails = fails
        self.never = never
        self.done: dict[str, list[int]] = defaultdict(list)
        self.running: dict[str, int] = defaultdict(int)
        self.finished: set[int] = set()
        self.together = 0
        """Records whose handler began while another of their key ran."""

    async def handle(self, record: Record) -> None:
        number, key = int(record.value or b""), (record.key or b"").decode()
        self.together += self.running[key] > 0
        self.running[key] += 1
        try:
            await asyncio.sleep(0)
            if number in self.never:
                self.finished.add(number)
                raise Reject("never")
            if self.fails.get(number, 0) > 0:
                self.fails[number] -= 1
                raise OSError("once more")
            self.done[key].append(number)
            self.finished.add(number)
        finally:
            self.running[key] -= 1


async def all_done(effects: Effects, count: int, *consumers: ShareConsumer, slots: int) -> None:
    async def watch() -> None:
        await until(lambda: len(effects.finished) == count)
        for one in consumers:
            one.stop()

    retry = Backoff(first_s=0.01, max_s=0.05)
    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        for one in consumers:
            group.create_task(one.run(effects.handle, concurrency=slots, retry=retry))
    assert effects.together == 0


@pytest.mark.parametrize("slots", [1, 20])
def test_a_failed_record_holds_up_its_key_and_no_other(kafka: LocalBroker, slots: int) -> None:
    keys = ["ann"] * 6 + ["bob", "ann", "bob"]
    topic, group = keyed(kafka, keys)
    effects = Effects({1: 1, 4: 2})

    async def scenario() -> None:
        await all_done(effects, len(keys), member(kafka, topic, group), slots=slots)
        assert effects.done == {"ann": [0, 1, 2, 3, 4, 5, 7], "bob": [6, 8]}

    run(scenario)


@pytest.mark.parametrize("slots", [1, 20])
def test_several_workers_keep_the_order_of_every_key(kafka: LocalBroker, slots: int) -> None:
    count = 300
    keys = [f"k{at * 7 % 10}" for at in range(count)]
    topic, group = keyed(kafka, keys, share_delivery_count_limit=10)
    effects = Effects(dict.fromkeys(range(5, count, 17), 1), frozenset({40, 41}))

    async def scenario() -> None:
        workers = [member(kafka, topic, group, client_id=f"w{one}") for one in range(3)]
        await all_done(effects, count, *workers, slots=slots)
        for numbers in effects.done.values():
            first = list(dict.fromkeys(numbers))
            assert first == sorted(first), "a later record before an earlier one"
        assert sum(worker_metrics(one)["lost-locks-total"] for one in workers) == 0

    run(scenario)


def test_a_record_that_rests_does_not_stop_the_fetching_of_others(kafka: LocalBroker) -> None:
    keys = ["ann"] * 90 + [f"other-{at}" for at in range(30)]
    topic, group = keyed(kafka, keys)
    effects = Effects({0: 1})

    async def scenario() -> None:
        consumer = member(kafka, topic, group)

        async def watch() -> None:
            await until(lambda: len(effects.finished) == 30)
            assert "ann" not in effects.done
            consumer.stop()

        async with asyncio.TaskGroup() as both:
            both.create_task(watch())
            pause = Backoff(first_s=3_600, max_s=3_600)
            await consumer.run(effects.handle, concurrency=2, retry=pause)

    run(scenario)


def test_a_callback_learns_which_accepts_went_back_behind_a_release(kafka: LocalBroker) -> None:
    """The commit is no failure, and what the release took back is told record by record."""
    topic, group = keyed(kafka, ["ann", "ann", "bob", "ann", "ann", "bob"])
    heard: list[tuple[list[tuple[int, int]], bool]] = []

    def callback(
        offsets: Mapping[TopicPartition, Sequence[OffsetRange]], error: KafkaError | None
    ) -> None:
        [ranges] = offsets.values()
        heard.append(([(one.first, one.last) for one in ranges], error is None))

    async def scenario() -> None:
        async with ShareConsumer(
            topic,
            group_id=group,
            bootstrap_servers=kafka.bootstrap,
            acknowledgement_mode="explicit",
            acknowledgement_commit_callback=callback,
        ) as consumer:
            records = await consumer.poll(10_000)
            assert len(records) == 6
            for record in records:
                (consumer.release if record.offset == 1 else consumer.accept)(record)
            assert list((await consumer.commit()).values()) == [None]
            assert [one.offset for one in await consumer.poll(10_000)] == [1]
        assert heard[:2] == [([(0, 2), (5, 5)], True), ([(3, 4)], False)]

    run(scenario)


def test_who_may_not_read_the_setting_keeps_the_order(tmp_path: Path) -> None:
    """Members need not have the right to see their group's settings."""
    rights = [
        "ALLOW,User:ANONYMOUS,*,ALL,GROUP,*,LITERAL",
        "DENY,User:ANONYMOUS,*,DESCRIBE_CONFIGS,GROUP,*,LITERAL",
        "ALLOW,User:ANONYMOUS,*,ALL,TOPIC,*,LITERAL",
        "ALLOW,User:ANONYMOUS,*,ALL,CLUSTER,kafka-cluster,LITERAL",
    ]
    acls = write_acls(tmp_path / "acls.csv", rights)
    with broker(data=tmp_path, configs={"authorizer.acl.file": str(acls)}) as guarded:
        topic, group = keyed(guarded, ["ann"] * 5)
        effects = Effects({1: 1})
        run(lambda: all_done(effects, 5, member(guarded, topic, group), slots=20))
    assert effects.done == {"ann": [0, 1, 2, 3, 4]}
