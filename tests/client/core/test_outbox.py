"""Batches and sequence numbers, against a broker that keeps KIP-98's rules and fails at times."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.client.core.outbox import IN_FLIGHT_MAX, Outbox, OutgoingBatch, ProducerIdentity
from sharegroup.model.ids import TopicPartition
from sharegroup.wire.batch import check_crc, decode_batch, parse_header

WHERE = TopicPartition("t", 0)
LINGER_S = 0.001
TINY_BATCH_BYTES = 100


def outbox(*, idempotent: bool = True, batch_size: int = TINY_BATCH_BYTES) -> Outbox:
    return Outbox(
        WHERE,
        batch_size=batch_size,
        codec=0,
        delivery_timeout_s=10.0,
        idempotent=idempotent,
        make_outcome=object,
    )


@dataclass
class Broker:
    """One partition's log, as an idempotent producer sees it."""

    values: list[bytes] = field(default_factory=list)
    expected: dict[int, int] = field(default_factory=dict)
    recent: dict[int, list[int]] = field(default_factory=dict)

    def append(self, data: bytearray) -> str:
        check_crc(data)
        header = parse_header(data)
        recent = self.recent.setdefault(header.producer_id, [])
        if header.base_sequence in recent:
            return "ok"
        expected = self.expected.get(header.producer_id)
        if expected is not None and header.base_sequence != expected:
            return "out of order"
        self.expected[header.producer_id] = header.base_sequence + header.record_count
        recent.append(header.base_sequence)
        del recent[:-IN_FLIGHT_MAX]
        self.values += [value or b"" for _, _, _, value in decode_batch(data)]
        return "ok"


class Run:
    """An outbox and a broker, with what is under way between them."""

    def __init__(self) -> None:
        self.outbox = outbox()
        self.broker = Broker()
        self.under_way: list[OutgoingBatch] = []
        self.now_s = 0.0
        self.identities = 0

    def add(self, count: int, made: int) -> int:
        for number in range(made, made + count):
            self.outbox.append(self.now_s, 0, None, b"%d" % number, [])
        return made + count

    def send(self) -> bool:
        self.now_s += 1
        due_s = self.outbox.due_s(LINGER_S)
        if due_s is None or due_s > self.now_s:
            return False
        if self.outbox.needs_identity:
            self.identities += 1
            self.outbox.identify(ProducerIdentity(self.identities, 0))
        batch = self.outbox.take()
        batch.encoded(self.outbox.identity)
        self.under_way.append(batch)
        assert len(self.under_way) <= IN_FLIGHT_MAX
        return True

    def answer(self) -> None:
        if self.under_way:
            self._answer(self.under_way.pop(0))

    def _answer(self, batch: OutgoingBatch) -> None:
        outcome = self.broker.append(batch.encoded(None))  # as it was sent
        if outcome == "ok":
            self.outbox.succeeded(batch)
        else:
            self.outbox.out_of_order(batch)

    def refuse(self) -> None:
        """The first under way fails at the broker, and the ones behind it go on."""
        if self.under_way:
            self.outbox.failed(self.under_way.pop(0))

    def disconnect(self, arrived: int) -> None:
        """The connection breaks; the broker has taken ``arrived`` batches, which nobody hears."""
        for batch in self.under_way[:arrived]:
            self.broker.append(batch.encoded(None))  # as it was sent
        for batch in self.under_way:
            self.outbox.failed(batch)
        self.under_way.clear()

    def give_up(self) -> int:
        """The broker refuses the first under way for good. Returns how many records are lost."""
        if not self.under_way:
            return 0
        batch = self.under_way.pop(0)
        self.outbox.gave_up(batch)
        return batch.count

    def expire(self) -> int:
        """The oldest batch was not delivered in time. Returns how many records are lost."""
        self.now_s = max(self.now_s, min((one.deadline_s for one in self.outbox), default=0.0))
        return sum(batch.count for batch in self.outbox.expire(self.now_s))

    def finish(self) -> None:
        while self.under_way or self.outbox:
            if not self.send():
                assert self.under_way, "nothing is under way and nothing can be sent"
                self.answer()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 20)),
        st.tuples(st.just("send"), st.just(0)),
        st.tuples(st.just("answer"), st.just(0)),
        st.tuples(st.just("refuse"), st.just(0)),
        st.tuples(st.just("disconnect"), st.integers(0, 5)),
    ),
    max_size=60,
)


def played(steps: list[tuple[str, int]]) -> tuple[Run, int, int]:
    """The finished run, how many records were made, and how many of them were given up."""
    run = Run()
    made = lost = 0
    for what, number in steps:
        match what:
            case "add":
                made = run.add(number, made)
            case "send":
                run.send()
            case "answer":
                run.answer()
            case "refuse":
                run.refuse()
            case "give up":
                lost += run.give_up()
            case "expire":
                lost += run.expire()
            case _:
                run.disconnect(number)
    run.finish()
    return run, made, lost


@given(STEPS)
def test_every_record_arrives_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    run, made, _ = played(steps)
    assert run.broker.values == [b"%d" % number for number in range(made)]
    assert run.identities <= 1, "no failure of these costs the producer its identity"


LOSING_STEPS = ("add", "send", "send", "answer", "refuse", "give up", "expire", "disconnect")


@given(st.lists(st.tuples(st.sampled_from(LOSING_STEPS), st.integers(0, 5)), min_size=20))
def test_no_record_arrives_twice_when_others_are_given_up(steps: list[tuple[str, int]]) -> None:
    run, made, lost = played(steps)
    values = [int(value) for value in run.broker.values]
    assert values == sorted(set(values)), "each once, and in order"
    assert made - lost <= len(values) <= made, "what was not given up is there"


def test_a_batch_behind_one_that_was_not_delivered_in_time_is_not_written_twice() -> None:
    run = Run()
    run.add(1, 0)
    run.finish()
    run.add(1, 1)
    run.now_s += LINGER_S
    run.send()
    run.now_s = 8.0
    run.add(1, 2)
    run.send()
    run.disconnect(2)
    run.now_s = 13.0
    assert run.expire() == 1
    run.add(1, 3)
    run.finish()
    assert run.broker.values == [b"0", b"1", b"2", b"3"]
    assert run.identities == 2, "whether the second is in the log was not known"


def test_a_batch_that_is_given_up_resets_the_producer_id_only() -> None:
    run = Run()
    made = run.add(30, 0)
    while run.send():
        continue
    lost = run.under_way.pop(0)
    run.outbox.gave_up(lost)
    while run.under_way:
        run.refuse()
    run.finish()
    assert run.identities == 2
    assert run.broker.values == [b"%d" % number for number in range(lost.count, made)]


def test_a_producer_id_whose_records_the_broker_misses_is_replaced() -> None:
    run = Run()
    run.add(1, 0)
    run.send()
    run.answer()
    run.broker.expected[1] = 0
    run.broker.recent.clear()
    run.add(1, 1)
    run.finish()
    assert run.broker.values == [b"0", b"1"]
    assert run.identities == 2


def test_without_linger_a_batch_waits_for_the_one_in_flight() -> None:
    box = outbox(batch_size=16_384)
    box.identify(ProducerIdentity(1, 0))
    box.append(0.0, 0, None, b"a", [])
    assert box.due_s(0.0) == 0.0
    first = box.take()
    box.append(0.0, 0, None, b"b", [])
    assert box.due_s(0.0) is None
    box.append(0.0, 0, None, b"c", [])
    box.succeeded(first)
    assert box.due_s(0.0) == 0.0
    assert box.take().count == 2


def test_linger_counts_from_the_first_record() -> None:
    box = outbox(batch_size=16_384)
    box.append(5.0, 0, None, b"a", [])
    box.append(5.5, 0, None, b"a", [])
    assert box.due_s(1.0) == 6.0


def test_without_idempotence_one_batch_is_in_flight() -> None:
    box = outbox(idempotent=False)
    for _ in range(40):
        box.append(0.0, 0, None, b"abc", [])
    assert not box.needs_identity
    batch = box.take()
    assert parse_header(batch.encoded(None)).producer_id == -1
    assert box.due_s(0.0) is None


def test_expired_batches_are_removed() -> None:
    box = outbox()
    for _ in range(40):
        box.append(0.0, 0, None, b"abc", [])
    count = sum(batch.count for batch in box)
    assert box.expire(9.0) == []
    assert sum(batch.count for batch in box.expire(10.0)) == count == 40
    assert not box


def test_after_a_failure_the_batches_under_way_follow_it() -> None:
    """The broker misses records before them; that is no error of theirs, in a transaction too."""
    run = Run()
    run.add(1, 0)
    run.finish()  # the partition knows the producer
    made = 1
    for _ in range(3):
        made = run.add(1, made)
        run.now_s += LINGER_S
        assert run.send()
    first, second, third = run.under_way
    assert [run.outbox.follows_another(one) for one in run.under_way] == [False, True, True]
    run.outbox.succeeded(first)
    assert [run.outbox.follows_another(one) for one in (second, third)] == [False, True]
    run.outbox.failed(second)
    assert run.outbox.follows_another(third)
