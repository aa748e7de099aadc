"""The parts of the broker that delivery to share groups works with."""

from __future__ import annotations

from dataclasses import dataclass, field

from sharegroup.broker.coordination.share_state_log import ShareStateLog
from sharegroup.broker.delivery.group_rates import GroupRates
from sharegroup.broker.delivery.share_partitions import SharePartitions
from sharegroup.broker.delivery.unpacking import Unpacking
from sharegroup.broker.event_counters import Counters
from sharegroup.broker.hot_path_counters import Meters
from sharegroup.broker.topics import Topics
from sharegroup.broker.waiters import FetchWaiters
from sharegroup.model.environment import Clock
from sharegroup.model.store import Store
from sharegroup.records.selected_records import Picker
from sharegroup.share.session import ShareSessions


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryParts:
    """The parts of one broker, one of each kind; ``BrokerParts`` adds those that only handlers
    need."""

    clock: Clock
    store: Store
    topics: Topics
    waiters: FetchWaiters
    """Fetches that wait; closed when the broker stops."""
    counters: Counters
    meters: Meters
    state: ShareStateLog
    """Durable share state."""
    share_partitions: SharePartitions
    """The share partitions that are led here."""
    rates: GroupRates
    """How many records groups get in a time."""
    sessions: ShareSessions
    unpacking: Unpacking
    picker: Picker = field(default_factory=Picker)
    """Cuts batches for groups with order per key."""
