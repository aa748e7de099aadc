"""The parts of the broker that request handlers work with.

A handler is ``async def <api>(parts, request, context)``. ``assembly`` makes the parts, once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from sharegroup.broker.authorization.access_rules import AccessRules
from sharegroup.broker.configs.live_configs import LiveConfigs
from sharegroup.broker.coordination.classic_group_coordinator import ClassicGroupCoordinator
from sharegroup.broker.coordination.consumer_group_coordinator import ConsumerGroupCoordinator
from sharegroup.broker.coordination.group_registry import GroupRegistry
from sharegroup.broker.coordination.offset_coordinator import OffsetCoordinator
from sharegroup.broker.coordination.range_commits import RangeCommits
from sharegroup.broker.coordination.security_store import SecurityStore
from sharegroup.broker.coordination.share_group_coordinator import ShareGroupCoordinator
from sharegroup.broker.coordination.transaction_coordinator import BrokerTransactions
from sharegroup.broker.coordination.transaction_writes import TransactionWrites
from sharegroup.broker.dead_letters.writer import DeadLetterWriter
from sharegroup.broker.delivery.cooperative_reading import CooperativeReading
from sharegroup.broker.delivery.parts import DeliveryParts
from sharegroup.broker.delivery.queue_retention import QueueRetention
from sharegroup.broker.delivery.range_reading import RangeReading
from sharegroup.broker.delivery.transactional_acks import TransactionalAcks
from sharegroup.broker.fetch_sessions import FetchSessions
from sharegroup.broker.leadership import Leadership, OtherNodes
from sharegroup.broker.quotas import Quotas
from sharegroup.broker.read_model.connections import OpenConnections
from sharegroup.broker.read_model.read_model import ReadModel
from sharegroup.wire.messages.api_versions import ApiVersion

if TYPE_CHECKING:
    from sharegroup.broker.passing.passing import Passing


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerParts(DeliveryParts):
    """The parts of one broker, one of each kind."""

    configs: LiveConfigs
    dead_letters: DeadLetterWriter
    queue_retention: QueueRetention
    groups: ShareGroupCoordinator
    classic_groups: ClassicGroupCoordinator
    consumer_groups: ConsumerGroupCoordinator
    transactions: BrokerTransactions
    transaction_writes: TransactionWrites
    transactional_acks: TransactionalAcks
    security: SecurityStore
    quotas: Quotas
    access_rules: AccessRules
    leadership: Leadership
    """Who leads which partition; it may change at run time."""
    new_id: Callable[[], UUID]
    """A random id."""
    group_registry: GroupRegistry
    """All groups, whatever their type."""
    offsets: OffsetCoordinator
    ranges: RangeCommits
    range_reading: RangeReading
    cooperative_reading: CooperativeReading
    fetch_sessions: FetchSessions
    served_apis: Sequence[ApiVersion]
    """The APIs and versions that ApiVersions announces."""
    share_version: int
    """``share.version``; 0: share groups are switched off."""
    passing: Passing | None
    """Passes on what the cluster with the records decides; None: nothing lies in a cluster."""
    other_nodes: OtherNodes | None
    """None: this broker is alone."""
    connections: OpenConnections
    views: ReadModel

    @property
    def node_id(self) -> int:
        """This node's id."""
        return self.configs.broker.node_id

    def forget_meters(self) -> None:
        """Drop the meters of deleted topics and groups."""
        # Another node may have a group that is delivered here.
        groups = self.group_registry.ids()
        groups |= {one.key.group_id for one in self.share_partitions.all()}
        self.meters.forget(topics_but=self.topics.ids(), groups_but=groups)
