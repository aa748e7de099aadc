"""Delivery: what happens to records at the leader of a share partition (KIP-932).

Start with :mod:`sharegroup.share.partition`; :mod:`sharegroup.share.session` is independent of it.
Nothing here does I/O or reads a clock: time is an argument, and changes to write are returned.
"""

from __future__ import annotations

from sharegroup.share.acknowledge import AckBatch
from sharegroup.share.acquire import Acquisition
from sharegroup.share.order import (
    ClassedOrder,
    KeyOrder,
    LogOrder,
    Order,
    fair_order,
    priority_order,
)
from sharegroup.share.partition import SharePartition, Statistics
from sharegroup.share.ranges import AcquiredRange
from sharegroup.share.record_state import AckType, RecordState
from sharegroup.share.session import BrokerShareSession, ShareSessions
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.state_changes import StateChange

__all__ = [
    "AckBatch",
    "AckType",
    "AcquiredRange",
    "Acquisition",
    "BrokerShareSession",
    "ClassedOrder",
    "DeliverySettings",
    "KeyOrder",
    "LogOrder",
    "Order",
    "RecordState",
    "SharePartition",
    "ShareSessions",
    "StateChange",
    "Statistics",
    "fair_order",
    "priority_order",
]
