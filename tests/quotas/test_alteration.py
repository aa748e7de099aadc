"""What may be set as a quota."""

from __future__ import annotations

import pytest

from sharegroup.model.errors import InvalidRequest, PolicyViolation
from sharegroup.model.limits import QUOTAS_MAX
from sharegroup.quotas.alteration import Alteration, AlteredQuota, changes_of, entity_of
from sharegroup.quotas.entity import Entity

Parts = list[tuple[str, str | None]]


@pytest.mark.parametrize(
    ("parts", "key", "value", "sentence"),
    [
        ([], "producer_byte_rate", 1, "Invalid empty client quota entity"),
        ([("group", "g")], "producer_byte_rate", 1, "Unhandled client quota entity type: group"),
        ([("user", "")], "producer_byte_rate", 1, "Empty user not supported"),
        ([("ip", "10.0.0.1"), ("user", "u")], "connection_creation_rate", 1, "combination"),
        ([("ip", "no.such.host")], "connection_creation_rate", 1, "not a valid IP address"),
        ([("ip", "10.0.0.1")], "producer_byte_rate", 1, "Invalid configuration key producer"),
        ([("user", "u")], "connection_creation_rate", 1, "Invalid configuration key connection"),
        ([("user", "u")], "consumer_byte_rat", 1, "Invalid configuration key consumer_byte_rat"),
        ([("user", "u")], "consumer_byte_rate", 0, "must be greater than 0"),
        ([("user", "u")], "request_percentage", -1, "must be greater than 0"),
        ([("user", "u")], "request_percentage", float("nan"), "must be greater than 0"),
        ([("user", "u")], "request_percentage", float("inf"), "must be a number"),
        ([("user", "u")], "producer_byte_rate", 1.5, "cannot be a fractional value"),
        ([("user", "u")], "producer_byte_rate", 2.0**64, "too large for a LONG"),
        ([("ip", None)], "connection_creation_rate", 2.0**31, "too large for an INT"),
    ],
)
def test_what_is_refused(parts: Parts, key: str, value: float, sentence: str) -> None:
    with pytest.raises(InvalidRequest, match=sentence):
        changes_of(Alteration(parts, [AlteredQuota(key, value)]), {})


@pytest.mark.parametrize(
    ("parts", "key", "value"),
    [
        ([("user", None)], "producer_byte_rate", 1),
        ([("user", None), ("client-id", None)], "consumer_byte_rate", 2.0**62),
        ([("client-id", "c")], "request_percentage", 0.5),
        ([("ip", None)], "connection_creation_rate", 2**31 - 1),
        ([("ip", "::1")], "connection_creation_rate", 1),
        ([("user", "u")], "producer_byte_rate", 5.0000001),
    ],
)
def test_what_is_taken(parts: Parts, key: str, value: float) -> None:
    entity, changes = changes_of(Alteration(parts, [AlteredQuota(key, value)]), {})
    assert entity == tuple(sorted(parts))
    assert changes == [AlteredQuota(key, value)]


def test_a_quota_named_twice_is_refused() -> None:
    twice = [AlteredQuota("producer_byte_rate", 1), AlteredQuota("producer_byte_rate", None)]
    with pytest.raises(InvalidRequest, match="it names producer_byte_rate twice"):
        changes_of(Alteration([("user", "u")], twice), {})


def test_only_what_makes_a_difference_changes() -> None:
    user = entity_of([("user", "u")])
    held = {(user, "producer_byte_rate"): 5.0, (user, "consumer_byte_rate"): 6.0}
    asked = [
        AlteredQuota("producer_byte_rate", 5.0),
        AlteredQuota("consumer_byte_rate", None),
        AlteredQuota("request_percentage", None),
        AlteredQuota("no_such_quota", None),
    ]
    _, changes = changes_of(Alteration([("user", "u")], asked), held)
    assert changes == [AlteredQuota("consumer_byte_rate", None)]


def test_there_is_a_most() -> None:
    held: dict[tuple[Entity, str], float] = {
        (entity_of([("user", f"u{number}")]), "producer_byte_rate"): 1.0
        for number in range(QUOTAS_MAX - 1)
    }
    one, two = AlteredQuota("producer_byte_rate", 1), AlteredQuota("consumer_byte_rate", 1)
    assert changes_of(Alteration([("user", "v")], [one]), held)[1] == [one]
    with pytest.raises(PolicyViolation, match="at most 10000"):
        changes_of(Alteration([("user", "v")], [one, two]), held)
    replaced = [AlteredQuota("producer_byte_rate", 2)]
    held[entity_of([("user", "w")]), "producer_byte_rate"] = 1.0
    assert changes_of(Alteration([("user", "w")], replaced), held)[1] == replaced
