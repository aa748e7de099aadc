"""Records that expire while operators decide about them, or have paused the group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from sharegroup.share.by_hand import Decided
from sharegroup.share.partition import SharePartition
from sharegroup.share.record_state import Verb
from sharegroup.share.settings import DeliverySettings, Expiry
from sharegroup.share.state_changes import StateChange
from tests.share.keyed import key_order, keyed_partition

SETTINGS = DeliverySettings(
    lock_ms=100,
    delivery_count_limit=3,
    record_locks_max=50,
    dead_letters=True,
    expiry=Expiry(after_ms=1_000, by_header=False, letters=True),
)
BY_KEY = replace(SETTINGS, key_max=1)
LAST = 9


def partition(settings: DeliverySettings, loaded: int = LAST + 1) -> SharePartition:
    """With order per key every record has a key of its own, and as many as said are loaded."""
    if not settings.key_max:
        return SharePartition(start_offset=0, state_epoch=1, leader_epoch=1)
    real = keyed_partition()
    key_order(real).load(range(loaded), range(loaded), loaded)
    return real


def take(real: SharePartition, last: int, settings: DeliverySettings) -> None:
    first = real.next_fetch_offset("a")
    real.acquire(
        "a", [(first, last)], fetch_offset=first, records_max=100, batch_size=100, strict=True,
        now_ms=0, settings=settings,
    )  # fmt: skip


def expire(
    real: SharePartition, settings: DeliverySettings, ranges: Sequence[tuple[int, int]]
) -> StateChange | None:
    change = real.expire(ranges, [(0, LAST)], fetch_offset=0, settings=settings)
    real.check_invariants()
    return change


def decide(
    real: SharePartition, first: int, last: int, verb: Verb, settings: DeliverySettings
) -> Decided:
    done = real.decide(first, last, verb, now_ms=0, settings=settings, extend_ms=10_000)
    real.check_invariants()
    return done


def given_up(real: SharePartition) -> list[tuple[int, int, str]]:
    return [(one.first, one.last, one.reason.word) for one in real.archived.ranges()]


@pytest.mark.parametrize("settings", [SETTINGS, BY_KEY])
def test_of_a_paused_group_nothing_expires(settings: DeliverySettings) -> None:
    """Also if it was paused since the log was read."""
    real = partition(settings)
    assert expire(real, replace(settings, paused=True), [(0, LAST)]) is None
    assert real.start_offset == 0
    assert expire(real, settings, [(0, LAST)]) is not None
    assert real.start_offset == LAST + 1


@pytest.mark.parametrize("settings", [SETTINGS, BY_KEY])
def test_what_is_extended_stays_and_what_is_released_expires(settings: DeliverySettings) -> None:
    real = partition(settings)
    take(real, 5, settings)
    assert decide(real, 0, 1, Verb.RENEW, settings).records == 2
    assert decide(real, 2, 3, Verb.RELEASE, settings).records == 2
    change = expire(real, settings, [(0, 3)])
    assert change is not None
    assert [(one.first, one.last, one.cause.word) for one in change.dead] == [(2, 3, "expired")]
    assert real.start_offset == 0
    answer = real.acknowledge("a", [(0, 1, [Verb.ACCEPT])], now_ms=500, settings=settings)
    assert answer is not None
    assert answer.start_offset == 4, "the holder's answer counts"


@pytest.mark.parametrize("settings", [SETTINGS, BY_KEY])
def test_what_has_expired_is_passed_by(settings: DeliverySettings) -> None:
    real = partition(settings)
    take(real, 1, settings)
    assert expire(real, settings, [(2, 5)]) is not None
    done = decide(real, 0, LAST, Verb.GAP, settings)
    assert (done.records, done.held) == (6, 2)
    assert given_up(real) == [(0, 1, "purged"), (2, 5, "expired"), (6, 9, "purged")]
    assert expire(real, settings, [(0, LAST)]) is None


def test_records_past_the_loaded_ones_that_an_operator_has_finished() -> None:
    """The last loaded record expires: the start moves past the other ones, too."""
    real = partition(BY_KEY, loaded=4)
    assert decide(real, 4, LAST, Verb.ACCEPT, BY_KEY).records == 6
    change = expire(real, BY_KEY, [(0, 3)])
    assert change is not None
    assert change.start_offset == real.start_offset == real.next_fetch_offset("a") == LAST + 1
