"""Incremental fetch sessions (KIP-227; Kafka classes FetchManager, FetchSessionCache and
FetchContext).

A consumer names all of its partitions once. From then on it sends what has changed, and gets only
the partitions that have something new. A session is known by its id, and each request by its epoch:
0 begins a session, -1 ends it, any other is the next one.

Invariants (:meth:`FetchSessions.check_invariants`):

* there are no more sessions than ``slots``, and each has a partition;
* the partitions of all sessions are counted, and no more than FETCH_SESSION_PARTITIONS_MAX.

A session is given up for another one when it was idle for two minutes, or when it is older than two
minutes and has fewer partitions than the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.model import errors
from sharegroup.model.limits import FETCH_SESSION_PARTITIONS_MAX
from sharegroup.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_MS: Final = 120_000
"""Kafka's ``min.incremental.fetch.session.eviction.ms``."""
TOPIC_IDS_SINCE: Final = 13
"""From this version on, Fetch names topics by their ids."""
ID_MAX: Final = 2**31 - 1

Wanted = list[tuple[FetchTopic, FetchPartition]]
Key = tuple[str, UUID, int]
"""Topic name or id, and partition."""


@dataclass(slots=True)
class _Known:
    """A partition of a session, and the offsets that its consumer was told last."""

    topic: FetchTopic
    wanted: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def take_in(self, part: PartitionData) -> bool:
        """Note what the consumer is told about the partition. Returns whether it must be told at
        all."""
        failed = part.error_code != 0
        watermark = -1 if failed else part.high_watermark  # an error is told again and again
        news = (watermark, part.log_start_offset) != (self.high_watermark, self.log_start_offset)
        self.high_watermark, self.log_start_offset = watermark, part.log_start_offset
        moved = part.read_up_to > self.wanted.fetch_offset
        return bool(part.records) or failed or news or moved


class FetchSession:
    """One session: its partitions in the order in which they are read."""

    def __init__(self, session_id: int, now_ms: int, *, topic_ids: bool) -> None:
        self.session_id = session_id
        self.epoch = 1
        """The epoch of the next request."""
        self.created_ms = self.used_ms = now_ms
        self.topic_ids = topic_ids
        self.partitions: dict[Key, _Known] = {}

    def update(self, topics: Iterable[FetchTopic], forgotten: Iterable[ForgottenTopic]) -> None:
        """Take in the partitions that a request adds, changes or forgets."""
        for topic in topics:
            for part in topic.partitions:
                known = self.partitions.get(_key(topic, part.partition))
                if known is None:
                    bare = FetchTopic(topic.topic, topic.topic_id)
                    self.partitions[_key(topic, part.partition)] = _Known(bare, part)
                else:
                    known.wanted = part
        for gone in forgotten:
            for number in gone.partitions:
                self.partitions.pop((gone.topic, gone.topic_id, number), None)

    def wanted(self) -> Wanted:
        """The partitions to read, in order."""
        return [(known.topic, known.wanted) for known in self.partitions.values()]

    def news(self, wanted: Wanted, found: Sequence[PartitionData]) -> list[int]:
        """The indexes of the parts that the consumer must be told. The next request reads the
        partitions that had records last, so that all partitions have their turn."""
        told, read = [], []
        for at, ((topic, _), part) in enumerate(zip(wanted, found, strict=True)):
            key = _key(topic, part.partition_index)
            known = self.partitions.get(key)
            if known is not None and known.take_in(part):
                told.append(at)
                if part.records:
                    read.append(key)
        for key in read:
            self.partitions[key] = self.partitions.pop(key)
        return told


class Fetching(NamedTuple):
    """One request, as it is to be answered."""

    wanted: Wanted
    session: FetchSession | None
    """The session that the request belongs to, already one epoch further; None: no session."""
    begins: bool
    """The answer may begin a session."""


class Told(NamedTuple):
    """Which parts go into an answer, and the id of the session; 0: no session."""

    indexes: list[int]
    session_id: int


class FetchSessions:
    """All sessions of a broker.

    Args:
        slots: Kafka's ``max.incremental.fetch.session.cache.slots``.
        random_id: a random number for an id, of 31 bits.
    """

    def __init__(self, slots: int, random_id: Callable[[], int]) -> None:
        self._slots = slots
        self._random_id = random_id
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0
        self.created = 0
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def partition_count(self) -> int:
        """Partitions in all sessions."""
        return self._partitions

    def begin(self, request: FetchRequest, version: int, now_ms: int) -> Fetching:
        """The partitions that a request wants, and its session. ``now_ms``: a monotonic clock.

        Raises:
            FetchSessionIdNotFound: there is no such session (any more).
            InvalidFetchSessionEpoch: the request's epoch is not the session's next one.
            FetchSessionTopicIdError: the session names its topics by ids and the request by names,
                or the reverse.
        """
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._remove(request.session_id)
            wanted = [(topic, part) for topic in request.topics for part in topic.partitions]
            return Fetching(wanted, None, begins=epoch == INITIAL_EPOCH)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise errors.FetchSessionIdNotFound
        if session.epoch != epoch:
            raise errors.InvalidFetchSessionEpoch
        if session.topic_ids != (version >= TOPIC_IDS_SINCE):
            raise errors.FetchSessionTopicIdError
        before = len(session.partitions)
        session.update(request.topics, request.forgotten_topics_data)
        self._partitions += len(session.partitions) - before
        if not session.partitions or self._partitions > FETCH_SESSION_PARTITIONS_MAX:
            self._remove(session.session_id)
            if session.partitions:
                raise errors.FetchSessionIdNotFound
            return Fetching([], None, begins=False)
        session.epoch = next_epoch(epoch)
        session.used_ms = now_ms
        self._sessions[session.session_id] = self._sessions.pop(session.session_id)
        return Fetching(session.wanted(), session, begins=False)

    def end(
        self,
        request: FetchRequest,
        version: int,
        fetching: Fetching,
        found: Sequence[PartitionData],
        now_ms: int,
    ) -> Told:
        """Which of the ``found`` parts go into the answer.

        Raises:
            InvalidFetchSessionEpoch: a later request of the session came meanwhile.
        """
        session = fetching.session
        everything = list(range(len(found)))
        if session is not None:
            if session.epoch != next_epoch(request.session_epoch):
                raise errors.InvalidFetchSessionEpoch
            return Told(session.news(fetching.wanted, found), session.session_id)
        if not fetching.begins or not found:
            return Told(everything, NO_SESSION)
        made = self._make(request, version, now_ms)
        if made is None:
            return Told(everything, NO_SESSION)
        made.news(fetching.wanted, found)
        return Told(everything, made.session_id)

    def _make(self, request: FetchRequest, version: int, now_ms: int) -> FetchSession | None:
        session = FetchSession(self._unused_id(), now_ms, topic_ids=version >= TOPIC_IDS_SINCE)
        session.update(request.topics, ())
        size = len(session.partitions)
        if self._partitions + size > FETCH_SESSION_PARTITIONS_MAX:
            return None
        if len(self._sessions) >= self._slots and not self._evict(size, now_ms):
            return None
        self._sessions[session.session_id] = session
        self._partitions += size
        self.created += 1
        return session

    def _unused_id(self) -> int:
        while (number := self._random_id() & ID_MAX) in self._sessions or number == NO_SESSION:
            pass
        return number

    def _evict(self, size: int, now_ms: int) -> bool:
        """Give up one session for another of ``size`` partitions. Returns False if no session may
        be given up."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms <= EVICTION_MS:
            old = [s for s in self._sessions.values() if s.used_ms - s.created_ms > EVICTION_MS]
            oldest = min(old, key=lambda session: len(session.partitions), default=None)
            if oldest is None or len(oldest.partitions) >= size:
                return False
        self._remove(oldest.session_id)
        self.evicted += 1
        return True

    def _remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)

    def check_invariants(self) -> None:
        """Assert what the module's docstring lists."""
        assert len(self._sessions) <= self._slots
        sizes = [len(session.partitions) for session in self._sessions.values()]
        assert all(sizes)
        assert sum(sizes) == self._partitions <= FETCH_SESSION_PARTITIONS_MAX


def next_epoch(epoch: int) -> int:
    """The epoch of the request after a request of ``epoch``."""
    return 1 if epoch == ID_MAX else epoch + 1


def _key(topic: FetchTopic, partition: int) -> Key:
    return topic.topic, topic.topic_id, partition
