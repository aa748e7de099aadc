"""The views of one broker, one part for each kind of thing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sharegroup.broker.read_model.connections import OpenConnections
from sharegroup.broker.read_model.groups import GroupViews
from sharegroup.broker.read_model.share_groups import ShareGroupViews
from sharegroup.broker.read_model.topics import TopicViews
from sharegroup.quotas.entity import Entity
from sharegroup.transactions.transaction import Transaction, TransactionStage


class TransactionViews(Protocol):
    """The transactional ids of one broker; a :class:`Transaction` never changes."""

    def find(self, transactional_id: str) -> Transaction | None:
        """The state of an id, or None. Raises CoordinatorLoadInProgress."""
        ...

    def all(self) -> Sequence[Transaction]:
        """Every transactional id. Raises CoordinatorLoadInProgress."""
        ...

    def by_state(self) -> Counter[TransactionStage]:
        """How many ids are in each state."""
        ...

    def oldest_open_ms(self) -> int | None:
        """How long the oldest open transaction has been open; None: no transaction is open."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadModel:
    """See the package."""

    topics: TopicViews
    share_groups: ShareGroupViews
    groups: GroupViews
    """Consumer groups and classic groups, and a list of the groups of all types."""
    transactions: TransactionViews
    quotas: Callable[[], Mapping[tuple[Entity, str], float]]
    """The quotas in force, by entity and by the name of the quota."""
    connections: OpenConnections
