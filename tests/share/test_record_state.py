from __future__ import annotations

from sharegroup.share.record_state import TERMINAL, TRANSITIONS, AckType, RecordState, Verb


def test_numbers_are_kafkas() -> None:
    assert [(s.name, s.value) for s in RecordState] == [
        ("AVAILABLE", 0),
        ("ACQUIRED", 1),
        ("ACKNOWLEDGED", 2),
        ("ARCHIVED", 4),
        ("DELAYED", 5),  # ours, and never durable
    ]
    assert [(t.name, t.value) for t in AckType] == [
        ("GAP", 0),
        ("ACCEPT", 1),
        ("RELEASE", 2),
        ("REJECT", 3),
        ("RENEW", 4),
    ]


def test_a_verb_has_the_number_of_its_acknowledgement_type() -> None:
    assert all(Verb(kind).name == kind.name for kind in AckType)


def test_acknowledged_and_archived_are_terminal() -> None:
    assert {RecordState.ACKNOWLEDGED, RecordState.ARCHIVED} == TERMINAL


def test_every_acknowledgement_applies_to_acquired_records_only() -> None:
    for kind in AckType:
        assert [s for s, verb in TRANSITIONS if verb is Verb(kind)] == [RecordState.ACQUIRED]
