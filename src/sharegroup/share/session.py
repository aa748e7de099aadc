"""Share sessions: the partitions a member fetches from this broker, and the order of its requests.

KIP-932 "Share sessions"; Kafka classes ShareSessionCache and SharePartitionManager. ShareFetch and
ShareAcknowledge share one sequence of epochs: 0 opens, then 1, 2, … (after 2³¹ − 1 comes 1), and
−1 closes. There is no eviction: at the limit a new session is refused.

This module only keeps track of sessions. When a session ends, the caller must release what its
member holds (:meth:`SharePartition.release_member`) on every partition of that group here.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Final

from sharegroup.model import errors
from sharegroup.model.ids import TopicIdPartition

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
_EPOCH_MAX: Final = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """The epoch that must follow ``epoch`` in a session."""
    return 1 if epoch == _EPOCH_MAX else epoch + 1


class BrokerShareSession:
    """One member's session on this broker; ``epoch`` is the epoch of its last accepted request,
    and ``topic_ids`` are the topics of its partitions."""

    __slots__ = (
        "_in_error",
        "_unlisted",
        "connection",
        "epoch",
        "group_id",
        "member_id",
        "partitions",
        "topic_ids",
    )

    def __init__(
        self,
        group_id: str,
        member_id: str,
        partitions: Iterable[TopicIdPartition],
        connection: Hashable,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection = connection
        self.epoch = INITIAL_EPOCH
        # A dict for its order and for cheap removal.
        self.partitions: dict[TopicIdPartition, None] = dict.fromkeys(partitions)
        self._unlisted: set[TopicIdPartition] = set(self.partitions)
        self._in_error: set[TopicIdPartition] = set()
        self.topic_ids = {topic_id for topic_id, _ in self.partitions}

    def rotated(self) -> list[TopicIdPartition]:
        """The partitions, rotated by the epoch: each request begins with another partition.

        Kafka also moves a partition to the end when it was served. Together with the rotation, that
        would serve some partitions twice in a row, so it is not done here.
        """
        partitions = list(self.partitions)
        if not partitions:
            return partitions
        by = self.epoch % len(partitions)
        return partitions[by:] + partitions[:by]

    def must_list(self, partition: TopicIdPartition, *, has_error: bool = False) -> bool:
        """Whether a response must list ``partition`` even without records or ack results.

        True once after the partition was added, as long as it has an error, and once after the
        error is gone. Call it exactly once for each candidate of a response.
        """
        if has_error:
            if partition in self.partitions:
                self._unlisted.add(partition)
                self._in_error.add(partition)
            return True
        self._in_error.discard(partition)
        if partition in self._unlisted:
            self._unlisted.remove(partition)
            return True
        return False

    def unlisted(self) -> list[TopicIdPartition]:
        """The partitions for which :meth:`must_list` is True even without an error."""
        if not self._unlisted:
            return []
        return [partition for partition in self.partitions if partition in self._unlisted]

    def knows_error(self, partition: TopicIdPartition) -> bool:
        """Whether the client was told that ``partition`` has an error. To tell it again is no
        reason to end a wait early."""
        return partition in self._in_error

    def _change(
        self, add: Collection[TopicIdPartition], forget: Collection[TopicIdPartition]
    ) -> None:
        for partition in add:
            if partition not in self.partitions:
                self.partitions[partition] = None
                self._unlisted.add(partition)
        for partition in forget:
            self.partitions.pop(partition, None)
            self._unlisted.discard(partition)
            self._in_error.discard(partition)
        if add or forget:
            self.topic_ids = {topic_id for topic_id, _ in self.partitions}


class ShareSessions:
    """All share sessions of one broker, at most ``limit`` (``group.share.max.share.sessions``)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._sessions: dict[tuple[str, str], BrokerShareSession] = {}
        self._by_connection: dict[Hashable, dict[tuple[str, str], None]] = {}

    def partition_count(self) -> int:
        """Partitions in all sessions."""
        return sum(len(session.partitions) for session in self._sessions.values())

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, group_id: str, member_id: str) -> BrokerShareSession | None:
        """The session of a member, if there is one."""
        return self._sessions.get((group_id, member_id))

    def of_group(self, group_id: str) -> list[BrokerShareSession]:
        """Every session of a group. Costs a walk over all sessions."""
        return [s for s in self._sessions.values() if s.group_id == group_id]

    def open(
        self,
        group_id: str,
        member_id: str,
        partitions: Iterable[TopicIdPartition],
        connection: Hashable,
        *,
        has_acknowledgements: bool = False,
    ) -> BrokerShareSession:
        """Open a session (ShareFetch, epoch 0). It replaces an old one, whose locks stay.

        Raises:
            InvalidRequest: acknowledgements are invalid in the request that opens a session.
            ShareSessionLimitReached: there are ``limit`` sessions already.
        """
        if has_acknowledgements:
            raise errors.InvalidRequest(
                "The request that opens a share session cannot acknowledge."
            )
        key = (group_id, member_id)
        if key not in self._sessions and len(self._sessions) >= self.limit:
            raise errors.ShareSessionLimitReached
        self._remove(key)
        session = BrokerShareSession(group_id, member_id, partitions, connection)
        self._sessions[key] = session
        self._by_connection.setdefault(connection, {})[key] = None
        return session

    def update(
        self,
        group_id: str,
        member_id: str,
        epoch: int,
        *,
        add: Collection[TopicIdPartition] = (),
        forget: Collection[TopicIdPartition] = (),
    ) -> BrokerShareSession:
        """A further request in a session (either API, epoch > 0), with changes to its partitions.

        Raises:
            ShareSessionNotFound: there is no session.
            InvalidShareSessionEpoch: ``epoch`` is not the next one. Epoch 0 is refused whether
                there is a session or not: a ShareAcknowledge cannot open one.
        """
        if epoch == INITIAL_EPOCH:
            raise errors.InvalidShareSessionEpoch
        session = self._existing(group_id, member_id)
        if epoch != next_epoch(session.epoch):
            raise errors.InvalidShareSessionEpoch
        session.epoch = epoch
        session._change(add, forget)
        return session

    def close(self, group_id: str, member_id: str) -> BrokerShareSession:
        """End a session (either API, epoch −1); the caller must handle acks, then release.

        Raises:
            ShareSessionNotFound: there is no session.
        """
        session = self._existing(group_id, member_id)
        self._remove((group_id, member_id))
        return session

    def close_connection(self, connection: Hashable) -> list[BrokerShareSession]:
        """End the sessions that were opened on ``connection``; the caller must release."""
        keys = list(self._by_connection.get(connection, ()))
        closed = [self._sessions[key] for key in keys]
        for key in keys:
            self._remove(key)
        return closed

    def check_invariants(self) -> None:
        """Assert that the index by connection agrees with the sessions."""
        indexed = {
            (key, connection) for connection, keys in self._by_connection.items() for key in keys
        }
        held = {(key, session.connection) for key, session in self._sessions.items()}
        assert indexed == held, f"{indexed} by connection, {held} by member"
        assert all(self._by_connection.values()), "a connection without sessions is kept"

    def _existing(self, group_id: str, member_id: str) -> BrokerShareSession:
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise errors.ShareSessionNotFound
        return session

    def _remove(self, key: tuple[str, str]) -> None:
        session = self._sessions.pop(key, None)
        if session is None:
            return
        keys = self._by_connection[session.connection]
        del keys[key]
        if not keys:
            del self._by_connection[session.connection]
