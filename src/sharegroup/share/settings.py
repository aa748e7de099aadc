"""The group settings that delivery obeys.

They are passed to each call, not kept, because group configs change while a partition is in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from sharegroup.share.pauses import BackOff
from sharegroup.share.rate import RateLimit


class Expiry(NamedTuple):
    """When records of a group are worthless, and what becomes of them."""

    after_ms: int
    """So long after their timestamps; 0: never (``share.record.expiry.ms``)."""
    by_header: bool
    """At the time in their header ``sharegroup.expires.at``
    (``share.record.expiry.header.enable``)."""
    letters: bool
    """They become dead letters (``share.record.expiry.action`` deadletter, and the group has dead
    letters)."""


class Fairness(NamedTuple):
    """Who the tenants of a group are, and how much one of them may have at once."""

    separator: int | None = None
    """The byte that ends the part of the key (or of the header's value) that names the tenant;
    None: all of it does (``share.fairness.key.separator``)."""
    held_max: int = 0
    """How many records of one tenant members may hold; 0: any number
    (``share.fairness.max.in.flight``)."""
    weights: Mapping[int, int] = MappingProxyType({})
    """Hash of a tenant's name → how much it gets, in hundredths of what others get
    (``share.fairness.weights``)."""
    header: bytes = b""
    """The header that names the tenant (``share.fairness.header``); empty: the key names it."""
    rate: RateLimit | None = None
    """How many records of one tenant the group is given in a time; None: any number
    (``share.fairness.rate.…``)."""


class Priority(NamedTuple):
    """Which records of a group go first."""

    header: bytes
    """The header that says a record's priority (``share.priority.header``)."""
    overtakes_max: int
    """After how many records that overtook it the oldest one is delivered; 0: never for that reason
    (``share.priority.overtakes.max``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverySettings:
    """Effective settings of one share group (KIP-932 and KIP-1222 configs, group over broker)."""

    lock_ms: int
    """How long a member holds a record: ``share.record.lock.duration.ms``."""
    delivery_count_limit: int
    """Deliveries before a record is archived: ``share.delivery.count.limit``."""
    record_locks_max: int
    """Maximum width of the in-flight window in offsets, which one log batch may exceed:
    ``share.partition.max.record.locks``."""
    renew_enabled: bool = True
    """``share.renew.acknowledge.enable``."""
    paused: bool = False
    """Nothing is delivered, and everything else works: ``share.paused``."""
    blocks: bool = False
    """With order per key: a record at the delivery limit is not archived, but waits for an operator
    (``share.ordering.on.failure`` block)."""
    back_off: BackOff | None = None
    """How long a record rests that is released or whose lock expires; None: not at all."""
    dead_letters: bool = False
    """Records that fail for good become dead letters: the group has
    ``errors.deadletterqueue.topic.name``."""
    expiry: Expiry | None = None
    """Which records are worthless; None: none."""
    scheduled: bool = False
    """Records rest until the time in their header ``sharegroup.deliver.at``
    (``share.record.schedule.header.enable``)."""
    fairness: Fairness | None = None
    """Tenants take turns (``share.fairness``); None: they do not. Not with order per key."""
    priority: Priority | None = None
    """Higher priorities go first (``share.priority.header``); None: they do not. Not with order per
    key, nor with turns."""
    rate: RateLimit | None = None
    """How many records the group is given in a time; None: any number (``share.rate.…``)."""
    key_max: int = 0
    """0: records have no order (``share.ordering`` none). Else there is order per key, and a member
    holds at most this many records of one key: ``share.ordering.key.max.in.flight``."""

    @property
    def classes(self) -> Fairness | Priority | None:
        """What records are told by, where they come by class; None: they do not."""
        return self.fairness or self.priority
