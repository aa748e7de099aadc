"""Who leads what has moved: an answer that refuses a partition because another node leads it names
the leader, and where it is reached. So the client need not ask for metadata first (KIP-951)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sharegroup.broker.leadership import Leadership, Node
from sharegroup.model.errors import FencedLeaderEpoch, NotLeaderOrFollower
from sharegroup.model.ids import TopicIdPartition

_MOVED: Final = frozenset((NotLeaderOrFollower.code, FencedLeaderEpoch.code))


class MovedLeaders:
    """The leaders that one answer names. ``here``: as in :class:`Leadership`."""

    def __init__(self, leadership: Leadership, here: tuple[str, int]) -> None:
        self._leadership = leadership
        self._here = here
        self._named: set[int] = set()

    def leader(self, key: TopicIdPartition, error_code: int) -> Sequence[int]:
        """The leader's id and epoch if the error says that the partition has moved, else nothing.
        The answer names the leader then."""
        if error_code not in _MOVED:
            return ()
        leader = self._leadership.leader(*key)
        self._named.add(leader.node_id)
        return leader

    def nodes(self) -> Sequence[Node]:
        """The leaders that the answer names, as the client reaches them."""
        if not self._named:
            return ()
        known = self._leadership.nodes(self._here)
        return [node for node in known if node.node_id in self._named]
