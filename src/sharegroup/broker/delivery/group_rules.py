"""The settings of a group, as delivery obeys them."""

from __future__ import annotations

from typing import Final

from sharegroup.groups.config import GroupSettings
from sharegroup.records.key_hashes import hash_of_key
from sharegroup.share.order import FairOrder, KeyOrder, LogOrder
from sharegroup.share.pauses import BackOff
from sharegroup.share.rate import RateLimit
from sharegroup.share.settings import DeliverySettings, Expiry, Fairness

BY_KEY: Final = "key"
"""The value of ``share.ordering`` for order per key, and of ``share.fairness`` for turns."""
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
        rate=_rate(settings),
        blocks=settings.ordering_on_failure == BLOCK,
        back_off=_back_off(settings),
        dead_letters=letters,
        expiry=_expiry(settings, letters=letters),
        scheduled=settings.record_schedule_header_enable,
    )


def order_of(settings: DeliverySettings) -> type[LogOrder | KeyOrder | FairOrder]:
    """The order in which records are delivered."""
    if settings.key_max:
        return KeyOrder
    return FairOrder if settings.fairness else LogOrder


def _separator(settings: DeliverySettings) -> int | None:
    """The byte that ends the part of a key that names a tenant; None: the whole key does."""
    return settings.fairness.separator if settings.fairness else None


def reason_to_load_again(before: DeliverySettings, after: DeliverySettings) -> str | None:
    """Why share partitions must be loaded again, which releases all locks; None: they need not."""
    if order_of(before) is not order_of(after):
        return "the order of its records has changed"
    if _separator(before) != _separator(after):
        return "its records have other tenants"
    if before.scheduled and not after.scheduled:  # what rests until its time is due at once
        return "share.record.schedule.header.enable is off"
    return None


def _fairness(settings: GroupSettings) -> Fairness | None:
    if settings.fairness != BY_KEY:
        return None
    separator = settings.fairness_key_separator
    return Fairness(
        ord(separator) if separator else None,
        settings.fairness_max_in_flight,
        {hash_of_key(name.encode()): each for name, each in settings.fairness_weights},
    )


def _rate(settings: GroupSettings) -> RateLimit | None:
    if not settings.rate_max_records:
        return None
    return RateLimit(settings.rate_max_records, settings.rate_interval_ms)


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
