"""The settings of a group, as delivery obeys them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sharegroup.groups.config import GroupSettings
from sharegroup.records.key_hashes import hash_of_key
from sharegroup.share.archived import Archived
from sharegroup.share.order.classed_order import fair_order, priority_order
from sharegroup.share.order.key_order import KeyOrder
from sharegroup.share.order.log_order import LogOrder
from sharegroup.share.order.order import Order
from sharegroup.share.pauses import BackOff
from sharegroup.share.rate import RateLimit
from sharegroup.share.settings import DeliverySettings, Expiry, Fairness, Priority
from sharegroup.share.window import Window

BY_KEY: Final = "key"
"""The value of ``share.ordering`` for order per key; of ``share.fairness`` for turns of keys."""
BY_HEADER: Final = "header"
"""The value of ``share.fairness`` for turns of what a header says."""
BLOCK: Final = "block"
"""The value of ``share.ordering.on.failure`` for records that wait for an operator."""
DEAD_LETTER: Final = "deadletter"
"""The value of ``share.record.expiry.action`` for records that become dead letters."""


def delivery_settings(settings: GroupSettings, *, dead_letters: bool) -> DeliverySettings:
    """What delivery obeys of a group's settings.

    Args:
        dead_letters: whether ``share.version`` allows dead letters.
    """
    letters = dead_letters and bool(settings.errors_deadletterqueue_topic_name)
    return DeliverySettings(
        lock_ms=settings.record_lock_duration_ms,
        delivery_count_limit=settings.delivery_count_limit,
        record_locks_max=settings.partition_max_record_locks,
        renew_enabled=settings.renew_acknowledge_enable,
        paused=settings.paused,
        key_max=settings.ordering_key_max_in_flight if settings.ordering == BY_KEY else 0,
        fairness=_fairness(settings),
        priority=_priority(settings),
        rate=_limit(settings.rate_max_records, settings.rate_interval_ms),
        blocks=settings.ordering_on_failure == BLOCK,
        back_off=_back_off(settings),
        dead_letters=letters,
        expiry=_expiry(settings, letters=letters),
        scheduled=settings.record_schedule_header_enable,
    )


def order_of(settings: DeliverySettings) -> Callable[[Window, Archived], Order]:
    """The order in which records are delivered."""
    if settings.key_max:
        return KeyOrder
    if settings.fairness:
        return fair_order
    return priority_order if settings.priority else LogOrder


def _told_by(settings: DeliverySettings) -> tuple[int | None, bytes] | bytes | None:
    """What tells the class of a record: separator and header of its tenant, or the header of its
    priority; None: records have no classes."""
    if settings.fairness:
        return settings.fairness.separator, settings.fairness.header
    return settings.priority.header if settings.priority else None


def reason_to_load_again(before: DeliverySettings, after: DeliverySettings) -> str | None:
    """Why share partitions must be loaded again, which releases all locks; None: they need not."""
    if order_of(before) is not order_of(after):
        return "the order of its records has changed"
    if _told_by(before) != _told_by(after):
        return "its records have other tenants, or other priorities"
    if before.scheduled and not after.scheduled:  # what rests until its time is due at once
        return "share.record.schedule.header.enable is off"
    return None


def _fairness(settings: GroupSettings) -> Fairness | None:
    if settings.fairness not in (BY_KEY, BY_HEADER):
        return None
    separator = settings.fairness_key_separator
    return Fairness(
        ord(separator) if separator else None,
        settings.fairness_max_in_flight,
        {hash_of_key(name.encode()): each for name, each in settings.fairness_weights},
        settings.fairness_header.encode() if settings.fairness == BY_HEADER else b"",
        _limit(settings.fairness_rate_max_records, settings.fairness_rate_interval_ms),
    )


def _priority(settings: GroupSettings) -> Priority | None:
    if not settings.priority_header:
        return None
    return Priority(settings.priority_header.encode(), settings.priority_overtakes_max)


def _limit(records: int, interval_ms: int) -> RateLimit | None:
    return RateLimit(records, interval_ms) if records else None


def _expiry(settings: GroupSettings, *, letters: bool) -> Expiry | None:
    if not settings.record_expiry_ms and not settings.record_expiry_header_enable:
        return None
    return Expiry(
        after_ms=settings.record_expiry_ms,
        by_header=settings.record_expiry_header_enable,
        letters=letters and settings.record_expiry_action == DEAD_LETTER,
    )


def _back_off(settings: GroupSettings) -> BackOff | None:
    if not settings.release_backoff_ms:
        return None
    return BackOff(
        first_ms=settings.release_backoff_ms,
        max_ms=settings.release_backoff_max_ms,
        multiplier=settings.release_backoff_multiplier,
        jitter=settings.release_backoff_jitter,
    )
