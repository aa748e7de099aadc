"""Dead records in durable state: kept until they are buried, over snapshots, replays and resets."""

from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.dead_records import Cause, DeadKey, DeadRecords
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import KeyedRecord, ShareSnapshot
from sharegroup.wire.internal.share_state import decode_record, encode_record

KEY = SharePartitionKey("g", UUID(int=1), 0)
OTHER = SharePartitionKey("h", UUID(int=1), 0)

DEAD = st.builds(
    DeadRecords,
    first=st.integers(0, 20),
    last=st.integers(20, 40),
    delivery_count=st.integers(0, 9),
    cause=st.sampled_from(Cause),
    member_id=st.sampled_from(["", "m"]),
    reason=st.text(max_size=3),
    failed_ms=st.integers(-1, 3),
)
KEYS = st.builds(DeadKey, st.integers(0, 20), st.integers(-1, 3))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("die"), st.lists(DEAD, max_size=3)),
        st.tuples(st.just("bury"), st.dictionaries(KEYS, st.lists(DEAD, max_size=2), max_size=3)),
        st.tuples(st.just("reset"), st.integers(0, 9)),
    ),
    max_size=30,
)


def logged(coordinator: ShareCoordinator, log: list[KeyedRecord], *records: KeyedRecord) -> None:
    """The records as they come back from the log."""
    for record in records:
        again = decode_record(*encode_record(record))
        assert again == record
        log.append(record)
    coordinator.check_invariants()


@given(STEPS, st.integers(0, 4))
def test_what_is_dead_is_dead_until_it_is_buried(
    steps: list[tuple[str, object]], per_snapshot: int
) -> None:
    coordinator, log = ShareCoordinator(per_snapshot), list[KeyedRecord]()
    model: dict[DeadKey, DeadRecords] = {}
    for key in (KEY, OTHER):
        logged(coordinator, log, *coordinator.initialize(key, 0, 0, 0))
    for epoch, (what, given_) in enumerate(steps, start=1):
        if isinstance(given_, list):
            record = coordinator.write(KEY, -1, -1, -1, -1, (), epoch, dead=tuple(given_))
            logged(coordinator, log, record)
            model |= {one.key: one for one in given_}
        elif isinstance(given_, dict):
            known = {name: left for name, left in given_.items() if name in model}
            logged(coordinator, log, *coordinator.bury(KEY, given_, epoch))
            for name in known:
                del model[name]
            model |= {one.key: one for left in known.values() for one in left}
        elif what == "reset":
            logged(coordinator, log, *coordinator.initialize(KEY, epoch, epoch, epoch))
        assert coordinator.dead(KEY) == sorted(model.values())
    assert coordinator.keys_with_dead() == ([KEY] if model else [])
    assert coordinator.dead(OTHER) == []
    replayed = ShareCoordinator(per_snapshot)
    for offset, (key, value) in enumerate(log):
        replayed.replay(key, value, offset)
    assert replayed.dead(KEY) == sorted(model.values())
    replayed.check_invariants()
    records = sum(one.size for one in model.values())
    assert coordinator.dead_counts() == ({"g": records} if model else {})
    logged(coordinator, log, *coordinator.delete(KEY))
    assert coordinator.dead(KEY) == []
    assert coordinator.bury(KEY, {DeadKey(0, 0): ()}, 0) == []


def test_archiving_records_of_apache_kafka_are_archived_and_dead() -> None:
    """Its brokers write state 3, and 4 when they have tried to write the letter (KIP-1191)."""
    coordinator = ShareCoordinator()
    snapshot = ShareSnapshot(
        snapshot_epoch=3,
        state_epoch=0,
        leader_epoch=0,
        start_offset=5,
        delivery_complete_count=0,
        create_timestamp_ms=0,
        write_timestamp_ms=0,
        state_batches=((5, 6, 3, 2), (7, 7, 0, 1)),
    )
    coordinator.replay(KEY, snapshot, 0)
    state, _ = coordinator.read(KEY, -1, 0)
    assert state.batches == ((5, 6, 4, 2), (7, 7, 0, 1))
    assert coordinator.dead(KEY) == [DeadRecords(5, 6, 2, Cause.UNKNOWN, "")]
    coordinator.write(KEY, -1, -1, -1, -1, ((7, 7, 3, 2),), 0)
    assert [one[:2] for one in coordinator.dead(KEY)] == [(5, 6), (7, 7)]
    state, _ = coordinator.read(KEY, -1, 0)
    assert state.batches == ((5, 7, 4, 2),)
