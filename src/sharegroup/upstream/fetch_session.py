"""What one broker of the cluster remembers of what it is asked (a fetch session, KIP-227): a
request names only the partitions that are new, or gone, or read from elsewhere now. The answer
names only those with news.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from sharegroup.model.ids import TopicPartition
from sharegroup.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 0
"""Of a request that names all partitions, and begins a session."""
LAST_EPOCH: Final = (1 << 31) - 1
UNREMEMBERED: Final = -1
"""Of a request that names all partitions, and begins no session."""


class Wanted(NamedTuple):
    """Where a partition is read from, and how many bytes at most."""

    offset: int
    max_bytes: int


class FetchSession:
    """See the module. One request is under way at a time.

    Args:
        remembered: False: the broker is to remember nothing.
    """

    def __init__(self, *, remembered: bool = True) -> None:
        self._id = NO_SESSION
        self._first = FIRST_EPOCH if remembered else UNREMEMBERED
        self._epoch = self._first
        self._told: Mapping[TopicPartition, Wanted] = {}
        self._missed: set[TopicPartition] = set()

    def request(
        self, wanted: Mapping[TopicPartition, Wanted], *, max_wait_ms: int, max_bytes: int
    ) -> FetchRequest:
        """The request for these partitions; the answer may have no records."""
        if not self._missed.isdisjoint(wanted):
            self.lost()  # who stays in a session is told nothing twice
        self._missed.clear()
        told = self._told if self._epoch > FIRST_EPOCH else {}
        self._told = wanted
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=self._id,
            session_epoch=self._epoch,
            topics=_named({where: one for where, one in wanted.items() if told.get(where) != one}),
            forgotten_topics_data=_forgotten(told.keys() - wanted.keys()),
        )

    def answered(self, session_id: int) -> None:
        """The broker has answered the last request. ``session_id``: of the answer; 0: the broker
        has no room for a session, and will remember nothing.
        """
        self._id = session_id
        if session_id == NO_SESSION:
            self._epoch = self._first
        else:
            self._epoch = 1 if self._epoch == LAST_EPOCH else self._epoch + 1

    def missed(self, where: TopicPartition) -> None:
        """What the broker has told of a partition is not known here: it must tell it again, unless
        the next request leaves the partition out."""
        self._missed.add(where)

    def lost(self) -> None:
        """Nobody knows whether the broker has got the last request: begin anew. The broker forgets
        the old session then."""
        self._epoch = self._first


def _named(wanted: Mapping[TopicPartition, Wanted]) -> list[FetchTopic]:
    topics: dict[str, list[FetchPartition]] = {}
    for (topic, partition), (offset, max_bytes) in wanted.items():
        topics.setdefault(topic, []).append(
            FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        )
    return [FetchTopic(topic=name, partitions=own) for name, own in topics.items()]


def _forgotten(gone: Iterable[TopicPartition]) -> list[ForgottenTopic]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(gone):
        topics.setdefault(topic, []).append(partition)
    return [ForgottenTopic(topic=name, partitions=own) for name, own in topics.items()]
