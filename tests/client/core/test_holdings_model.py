"""Holdings driven at random beside one dictionary entry per offset: every offset is said once, and
what is said is the application's last word.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.acknowledgements import UNDECIDED, AckType
from sharegroup.client.core.fetched import Lease
from sharegroup.client.core.held_deliveries import AcknowledgementMode, Decided, Holdings
from sharegroup.client.core.record import HeldDelivery, Record
from sharegroup.client.errors import IllegalState
from sharegroup.model.errors import InvalidRecordState
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.model.offsets import OffsetRange

WHERE = TopicIdPartition(UUID(int=1), 0)
NAME = TopicPartition("t", 0)
FINAL = [AckType.ACCEPT, AckType.RELEASE, AckType.REJECT]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("buffer"), st.sets(st.integers(0, 11), min_size=1)),
        st.tuples(st.just("poll"), st.integers(1, 20)),
        st.tuples(st.just("say"), st.integers(0, 30), st.sampled_from([*FINAL, AckType.RENEW])),
        st.tuples(st.just("commit")),
        st.tuples(st.just("renew"), st.booleans()),
        st.tuples(st.just("accept all")),
    ),
    max_size=40,
)


class Driver:
    """Explicit mode. ``word``: per offset in hand what was said of it last, None: nothing."""

    def __init__(self) -> None:
        self.holdings = Holdings(AcknowledgementMode.EXPLICIT)
        self.word: dict[int, AckType | None] = {}
        self.records: dict[int, Record] = {}
        self.said: dict[int, int] = {}
        self.lost: set[int] = set()
        self.end = 0

    def buffer(self, present: set[int]) -> None:
        """A delivery of 12 offsets of which some have records."""
        one = HeldDelivery(WHERE, NAME, OffsetRange(self.end, self.end + 11), 1, Lease(), 30.0)
        for at in sorted(present):
            one.mark(self.end + at, self.end + at, UNDECIDED)
            one.records.append(Record((self.end + at, 0, None, b"", []), one))
        self.end += 12
        self.take(self.holdings.buffer([one]))

    def take(self, decided: list[Decided]) -> None:
        for each in decided:
            for first, last, types in each.ranges:
                for at in range(last - first + 1):
                    assert first + at not in self.said, "said twice"
                    kind = types[0] if len(types) == 1 else types[at]
                    self.said[first + at] = kind
                    if first + at in self.word:
                        assert self.word.pop(first + at) == kind
                    else:
                        assert kind == AckType.GAP

    def poll(self, count_max: int) -> None:
        if None in self.word.values():
            try:
                self.holdings.settle()
            except IllegalState:
                return
            raise AssertionError("a record without a word")
        self.take(self.holdings.settle())
        self.renew(succeeds=True)
        for record in self.holdings.rest() or self.holdings.next_records(count_max, 0.0):
            self.word[record.offset] = None
            self.records[record.offset] = record

    def say(self, which: int, kind: AckType) -> None:
        if self.word:
            offset = sorted(self.word)[which % len(self.word)]
            self.holdings.decide([self.records[offset]], kind)
            self.word[offset] = kind

    def renew(self, *, succeeds: bool) -> None:
        for one in self.holdings.take_renewals():
            self.holdings.renewed(one, None if succeeds else InvalidRecordState(), 30.0)
            for record in one.records:
                assert self.word.pop(record.offset) is AckType.RENEW
                if not succeeds:
                    self.lost.add(record.offset)

    def accept_all(self) -> None:
        for offset, word in self.word.items():
            if word is None:
                self.holdings.decide([self.records[offset]], AckType.ACCEPT)
                self.word[offset] = AckType.ACCEPT

    def step(self, name: str, *arguments: Any) -> None:
        match name:
            case "buffer":
                self.buffer(*arguments)
            case "poll":
                self.poll(*arguments)
            case "say":
                self.say(*arguments)
            case "commit":
                self.take(self.holdings.take_decided())
            case "renew":
                self.renew(succeeds=arguments[0])
            case "accept all":
                self.accept_all()

    def release_all(self) -> None:
        """The end: what is decided is said as it is, all else is released."""
        for offset in range(self.end):
            if offset not in self.said and offset not in self.lost:
                word = self.word.get(offset)
                self.word[offset] = word if word in FINAL else AckType.RELEASE
        for each in self.holdings.release_all():
            for first, last, types in each.ranges:
                for at in range(last - first + 1):
                    kind = types[0] if len(types) == 1 else types[at]
                    assert kind in (self.word.pop(first + at), AckType.GAP)
        assert not self.word, "not said"


@given(STEPS)
def test_every_offset_is_answered_once_and_the_last_answer_counts(
    steps: list[tuple[Any, ...]],
) -> None:
    driver = Driver()
    for step in steps:
        driver.step(*step)
    driver.release_all()
    assert not driver.said.keys() & driver.lost
