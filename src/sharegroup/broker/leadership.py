"""Which node leads a partition or coordinates a group, with which epoch, and where it is reached.

Whoever tells a client, or checks what a client believes, asks here at each use: with several nodes
the answers change while the broker runs. :class:`OneNode` is the answer of a broker that is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from sharegroup.model.errors import FencedLeaderEpoch, UnknownLeaderEpoch
from sharegroup.model.ids import SharePartitionKey
from sharegroup.wire.apis import Api
from sharegroup.wire.schema import Message

NO_EPOCH: Final = -1
"""A client that names no leader epoch."""

FIRST_EPOCH: Final = 0


class Node(NamedTuple):
    """A node, as a client reaches it."""

    node_id: int
    host: str
    port: int
    rack: str | None


class Leader(NamedTuple):
    """Who leads a partition."""

    node_id: int
    epoch: int


class OtherNodes(Protocol):
    """The other nodes of a fleet, and what this one has of the work."""

    @property
    def node_count(self) -> int:
        """How many nodes there are, with this one."""
        ...

    @property
    def owned(self) -> Collection[int]:
        """The parts of the state that this node has."""
        ...

    @property
    def may_deliver(self) -> bool:
        """Whether no other node can have what this one has."""
        ...

    def owner_of(self, key: SharePartitionKey) -> int:
        """The node that leads a share partition; -1: nobody now."""
        ...

    async def ask(self, node_id: int, api: Api, version: int, request: Message) -> Any:
        """The answer of a node to a request of an API and a version.

        Raises:
            KafkaError: it cannot be asked, or does not answer.
        """
        ...


class Leadership(Protocol):
    """See the module. ``here``: host and port by which the client that asks knows this node."""

    @property
    def controller_id(self) -> int:
        """The node that clients are told to be the controller."""
        ...

    @property
    def log_epoch(self) -> int:
        """The epoch that stands in new batches; NO_EPOCH: other leaders than these write them."""
        ...

    def nodes(self, here: tuple[str, int]) -> Sequence[Node]:
        """All nodes."""
        ...

    def leader(self, topic_id: UUID, partition: int) -> Leader:
        """Who leads a partition."""
        ...

    def coordinator(self, key_type: int, key: str, here: tuple[str, int]) -> Node:
        """Who coordinates a group, a transactional id or a share partition; ``key_type`` and
        ``key`` as in FindCoordinator."""
        ...

    def check(self, topic_id: UUID, partition: int, current: int = NO_EPOCH) -> None:
        """Check that this node leads a partition, with the epoch that a client believes to be
        ``current``.

        Raises:
            NotLeaderOrFollower: another node leads it.
            FencedLeaderEpoch, UnknownLeaderEpoch: the client's epoch is older, or newer.
        """
        ...


class OneNode:
    """This node leads and coordinates everything, for ever with the first epoch: the one that the
    local store writes into batches."""

    def __init__(self, node_id: int, rack: Callable[[], str | None]) -> None:
        self.controller_id = node_id
        self.log_epoch = FIRST_EPOCH
        self._rack = rack
        self._leader = Leader(node_id, FIRST_EPOCH)

    def nodes(self, here: tuple[str, int]) -> Sequence[Node]:
        """See ``Leadership``."""
        return [self._node(here)]

    def leader(self, topic_id: UUID, partition: int) -> Leader:
        """See ``Leadership``."""
        return self._leader

    def coordinator(self, key_type: int, key: str, here: tuple[str, int]) -> Node:
        """See ``Leadership``."""
        return self._node(here)

    def check(self, topic_id: UUID, partition: int, current: int = NO_EPOCH) -> None:
        """See ``Leadership``."""
        if current not in (NO_EPOCH, FIRST_EPOCH):
            raise FencedLeaderEpoch if current < FIRST_EPOCH else UnknownLeaderEpoch

    def _node(self, here: tuple[str, int]) -> Node:
        return Node(self._leader.node_id, *here, self._rack())
