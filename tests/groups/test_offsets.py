"""Committed offsets beside a naive model that keeps the whole history and reads it each time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from random import Random
from typing import NamedTuple
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharegroup.groups.offsets import NONE, Commit, CommittedOffset, CommittedOffsets, OffsetRecord
from sharegroup.model.ids import NULL_TOPIC_ID, TopicPartition
from sharegroup.wire.internal.offsets import decode_record, encode_record

GROUPS = ("readers", "others")
TOPIC_IDS = {"a": UUID(int=1), "b": UUID(int=2)}
PLACES = [("a", 0), ("b", 0), ("b", 1)]
PRODUCERS = (7, 8)


class End(NamedTuple):
    """A marker in the log."""

    producer_id: int
    committed: bool


class Happened(NamedTuple):
    """One commit or deletion (``committed`` None) in the naive model."""

    group_id: str
    topic: str
    partition: int
    committed: CommittedOffset | None
    transaction: int
    """0 outside transactions."""


class Naive:
    """All that ever happened."""

    def __init__(self) -> None:
        self.history: list[Happened] = []
        self.transactions = 0
        self.open: dict[int, int] = {}
        """Producer → number of its transaction."""
        self.ended: dict[int, bool] = {0: True}

    def add(self, group_id: str, commit: Commit, producer_id: int) -> None:
        number = 0
        if producer_id != NONE:
            if producer_id not in self.open:
                self.transactions += 1
                self.open[producer_id] = self.transactions
            number = self.open[producer_id]
        self.history.append(Happened(group_id, *commit, number))

    def delete(self, group_id: str, topic: str, partition: int) -> None:
        self.history.append(Happened(group_id, topic, partition, None, 0))

    def end(self, producer_id: int, *, committed: bool) -> None:
        if producer_id in self.open:
            self.ended[self.open.pop(producer_id)] = committed

    def _since_deletion(self, group_id: str, topic: str, partition: int) -> list[Happened]:
        its = [one for one in self.history if one[:3] == (group_id, topic, partition)]
        for at in reversed(range(len(its))):
            if its[at].committed is None:
                return its[at + 1 :]
        return its

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        counts = [
            one.committed
            for one in self._since_deletion(group_id, topic, partition)
            if self.ended.get(one.transaction)
        ]
        return counts[-1] if counts else None

    def is_pending(self, group_id: str, topic: str, partition: int, *, overtaken: bool) -> bool:
        """``overtaken``: also where a later commit counts already."""
        its = self._since_deletion(group_id, topic, partition)
        still_open = set(self.open.values())
        for one in reversed(its):
            if one.transaction in still_open:
                return True
            if self.ended.get(one.transaction) and not overtaken:
                return False
        return False


class Life:
    """The machine, the model and the log that the machine writes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.offsets = CommittedOffsets()
        self.naive = Naive()
        self.log: list[list[OffsetRecord] | End] = []
        """Batches and markers."""
        self.now_ms = 0
        self.rewritten = False
        """A rewrite leaves out what is pending and overtaken."""

    def _commits(self, where: Sequence[tuple[str, int]]) -> list[Commit]:
        self.now_ms += 1
        offset = self.random.randint(0, 100)
        return [
            Commit(
                topic, at, CommittedOffset(offset, 3, "text", self.now_ms, NONE, TOPIC_IDS[topic])
            )
            for topic, at in where
        ]

    def step(self) -> None:
        """Something happens."""
        random = self.random
        group = random.choices(GROUPS, (3, 1))[0]
        where = random.sample(PLACES, random.randint(1, len(PLACES)))
        kind = random.choices(
            ("commit", "in transaction", "end", "load", "expire", "delete"), (4, 6, 4, 4, 1, 1)
        )[0]
        if kind == "commit":
            self.commit(group, where)
        elif kind == "in transaction":
            self.commit_in_transaction(group, where, random.choice(PRODUCERS))
        elif kind == "end":
            self.end_transaction(random.choice(PRODUCERS), committed=random.random() < 0.7)
        elif kind == "load":
            self.load(random.choice(("start", "rewrite", "interrupted")))
        elif kind == "expire":
            self.expire(group, random.randint(1, 20), random.choice(PLACES)[0])
        else:
            self.delete(group, where, random.choice(("some", "group", "topic", "other id")))

    def commit(self, group: str, where: Sequence[tuple[str, int]]) -> None:
        commits = self._commits(where)
        self.log.append(self.offsets.commit(group, commits))
        for one in commits:
            self.naive.add(group, one, NONE)

    def commit_in_transaction(
        self, group: str, where: Sequence[tuple[str, int]], producer: int
    ) -> None:
        commits = self._commits(where)
        self.log.append(self.offsets.commit(group, commits, producer, 0))
        for one in commits:
            self.naive.add(group, one, producer)

    def end_transaction(self, producer: int, *, committed: bool) -> None:
        self.offsets.end_transaction(producer, committed=committed)
        self.naive.end(producer, committed=committed)
        self.log.append(End(producer, committed))

    def delete(self, group: str, where: Sequence[tuple[str, int]], kind: str) -> None:
        topic = where[0][0]
        if kind == "some":
            self._deleted(self.offsets.delete(group, [TopicPartition(*place) for place in where]))
            gone = [(group, *place) for place in where]
        elif kind == "group":
            self._deleted(self.offsets.delete_group(group))
            gone = [(group, *place) for place in PLACES]
        elif kind == "topic":
            self._deleted(self.offsets.delete_topic(topic, TOPIC_IDS[topic]))
            gone = [(one, *place) for one in GROUPS for place in PLACES if place[0] == topic]
        else:
            assert not self.offsets.delete_topic(topic, UUID(int=99))
            gone = []
        for one in gone:
            self.naive.delete(*one)
        assert kind != "group" or not self.offsets.has_group(group)

    def expire(self, group: str, after_ms: int, subscribed: str) -> None:
        due = {
            (topic, partition)
            for topic, partition in PLACES
            if topic != subscribed
            and (known := self.naive.get(group, topic, partition))
            and known.commit_ms + after_ms <= self.now_ms
            and not self.offsets.is_pending(group, topic, partition)
        }
        records = self.offsets.expire(group, self.now_ms, after_ms, None, subscribed.__eq__)
        assert {record[1:3] for record in records} == due
        self._deleted(records)
        for place in due:
            self.naive.delete(group, *place)

    def _deleted(self, records: list[OffsetRecord]) -> None:
        assert all(record.committed is None for record in records)
        if records:
            self.log.append(records)

    def load(self, kind: str) -> None:
        """Start again from the log, through its bytes."""
        if kind == "rewrite":
            self.log = self._rewritten()
        elif kind == "interrupted":
            batches = self._rewritten()
            self.log += batches[: self.random.randint(0, len(batches))]
        self.offsets = CommittedOffsets()
        for entry in self.log:
            if isinstance(entry, End):
                self.offsets.end_transaction(entry.producer_id, committed=entry.committed)
                continue
            for record in entry:
                key, value = encode_record(record)
                again = decode_record(key, value, record.producer_id, record.producer_epoch)
                assert again == record
                self.offsets.replay(again)

    def _rewritten(self) -> list[list[OffsetRecord] | End]:
        self.rewritten = True
        return [
            list(run)
            for records in self.offsets.live_records()
            for _, run in groupby(records, lambda record: record.producer_id)
        ]

    def same(self) -> None:
        self.offsets.check_invariants()
        for group in GROUPS:
            found = self.offsets.of_group(group)
            for topic, partition in PLACES:
                where = group, topic, partition
                expected = self.naive.get(*where)
                assert self.offsets.get(*where) == expected
                assert found.get(topic, {}).get(partition) == expected
                pending = self.offsets.is_pending(*where)
                if self.naive.is_pending(*where, overtaken=False):
                    assert pending
                elif not self.rewritten:
                    assert pending == self.naive.is_pending(*where, overtaken=True)


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_random_lives(seed: int) -> None:
    life = Life(seed)
    for _ in range(150):
        life.step()
        life.same()


def one(commit_ms: int, expire_ms: int = NONE) -> list[Commit]:
    return [Commit("a", 0, CommittedOffset(5, commit_ms=commit_ms, expire_ms=expire_ms))]


@pytest.mark.parametrize(
    ("commit_ms", "expire_ms", "empty_since_ms", "now_ms", "gone"),
    [
        (100, NONE, None, 199, False),
        (100, NONE, None, 200, True),
        (100, NONE, 150, 249, False),  # an empty group: since it lost its last member
        (100, NONE, 150, 250, True),
        (100, NONE, 50, 150, True),
        (100, 400, None, 399, False),  # its own expiry counts, not the retention
        (100, 400, None, 400, True),
    ],
)
def test_expiry(
    commit_ms: int, expire_ms: int, empty_since_ms: int | None, now_ms: int, gone: bool
) -> None:
    offsets = CommittedOffsets()
    offsets.commit("g", one(commit_ms, expire_ms))
    records = offsets.expire("g", now_ms, 100, empty_since_ms, lambda _: False)
    assert bool(records) == gone
    assert offsets.has_group("g") != gone


def test_pending_and_subscribed_offsets_do_not_expire() -> None:
    offsets = CommittedOffsets()
    offsets.commit("g", one(100))
    assert not offsets.expire("g", 1_000, 100, None, lambda _: True)
    offsets.commit("g", one(200), 7, 0)
    assert not offsets.expire("g", 1_000, 100, None, lambda _: False)
    offsets.end_transaction(7, committed=False)
    assert offsets.expire("g", 1_000, 100, None, lambda _: False)


def test_offsets_in_missing_topics_are_deleted() -> None:
    offsets = CommittedOffsets()
    for topic, noted in (("same", 1), ("made anew", 2), ("gone", 3), ("not noted", 0)):
        offsets.commit("g", [Commit(topic, 0, CommittedOffset(1, topic_id=UUID(int=noted)))])
    now = {"same": UUID(int=1), "made anew": UUID(int=9), "not noted": UUID(int=4)}
    records = offsets.delete_missing(now.get)
    assert {record.topic for record in records} == {"made anew", "gone"}
    assert set(offsets.of_group("g")) == {"same", "not noted"}
    assert NULL_TOPIC_ID not in now.values()
