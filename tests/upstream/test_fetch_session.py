"""What a broker of the cluster remembers of what it is asked, compared with the sessions of our own
broker (KIP-227)."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.broker.fetch_sessions import FetchSessions
from sharegroup.model import errors
from sharegroup.model.ids import TopicPartition
from sharegroup.upstream.fetch_session import LAST_EPOCH, FetchSession, Wanted
from sharegroup.wire.messages.fetch import FetchRequest, PartitionData

VERSION = 12
PARTITIONS = st.builds(TopicPartition, st.sampled_from(["jobs", "mail"]), st.integers(0, 3))
WANTED = st.dictionaries(
    PARTITIONS, st.builds(Wanted, st.integers(0, 3), st.sampled_from([1, 1 << 20])), min_size=1
)
FAULTS = st.sampled_from(["", "", "", "request lost", "answer lost", "restart"])


def asked(session: FetchSession, wanted: dict[TopicPartition, Wanted]) -> FetchRequest:
    return session.request(wanted, max_wait_ms=500, max_bytes=1 << 24)


def named(request: FetchRequest) -> int:
    return sum(len(topic.partitions) for topic in request.topics)


class Broker:
    """A broker of the cluster: it says what it would read."""

    def __init__(self) -> None:
        self._ids = count(1)
        self.restart()

    def restart(self) -> None:
        self._sessions = FetchSessions(2, lambda: next(self._ids))

    def answer(self, request: FetchRequest) -> tuple[dict[TopicPartition, Wanted], int]:
        """What it reads, and the id of the session."""
        fetching = self._sessions.begin(request, VERSION, 0)
        read = {
            TopicPartition(topic.topic, one.partition): Wanted(
                one.fetch_offset, one.partition_max_bytes
            )
            for topic, one in fetching.wanted
        }
        found = [PartitionData(partition_index=where.partition) for where in read]
        return read, self._sessions.end(request, VERSION, fetching, found, 0).session_id


@given(st.lists(st.tuples(WANTED, FAULTS), max_size=30))
def test_the_broker_reads_what_is_wanted_whatever_gets_lost(
    steps: list[tuple[dict[TopicPartition, Wanted], str]],
) -> None:
    broker, session = Broker(), FetchSession()
    for wanted, fault in steps:
        if fault == "restart":
            broker.restart()
        request = asked(session, wanted)
        if fault == "request lost":
            session.lost()
            continue
        try:
            read, session_id = broker.answer(request)
        except errors.FetchSessionIdNotFound:
            assert fault == "restart"
            session.lost()
            continue
        assert read == wanted
        if fault == "answer lost":
            session.lost()
        else:
            session.answered(session_id)


def test_what_stays_is_named_once() -> None:
    broker, session = Broker(), FetchSession()
    wanted = {TopicPartition("jobs", number): Wanted(0, 100) for number in range(1_000)}
    names = []
    for offset in range(4):
        wanted[TopicPartition("jobs", 7)] = Wanted(offset, 100)
        request = asked(session, dict(wanted))
        names.append(named(request))
        session.answered(broker.answer(request)[1])
    assert names == [1_000, 1, 1, 1]


def test_a_broker_without_room_for_a_session_is_told_everything_each_time() -> None:
    session = FetchSession()
    wanted = {TopicPartition("jobs", 0): Wanted(0, 100)}
    for _ in range(3):
        request = asked(session, wanted)
        assert (request.session_id, request.session_epoch, named(request)) == (0, 0, 1)
        session.answered(0)


def test_the_epoch_begins_again_behind_the_last_one() -> None:
    session = FetchSession()
    wanted = {TopicPartition("jobs", 0): Wanted(0, 100)}
    asked(session, wanted)
    session.answered(5)
    session._epoch = LAST_EPOCH  # 2,147,483,647 requests later
    assert asked(session, wanted).session_epoch == LAST_EPOCH
    session.answered(5)
    assert asked(session, wanted).session_epoch == 1


def test_what_was_missed_is_told_again() -> None:
    here, there = TopicPartition("jobs", 0), TopicPartition("jobs", 1)
    broker, session = Broker(), FetchSession()
    wanted = {one: Wanted(0, 100) for one in (here, there)}
    session.answered(broker.answer(asked(session, wanted))[1])
    session.missed(here)
    request = asked(session, wanted)
    assert (request.session_epoch, named(request)) == (0, 2)
    session.answered(broker.answer(request)[1])
    session.missed(here)
    request = asked(session, {there: wanted[there]})
    assert (request.session_epoch, named(request)) == (1, 0)
    assert [one.partitions for one in request.forgotten_topics_data] == [[0]]
    session.answered(broker.answer(request)[1])
    request = asked(session, wanted)
    assert (request.session_epoch, named(request)) == (2, 1)
