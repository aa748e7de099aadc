from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharegroup.model.dead_records import Cause, DeadRecords
from sharegroup.model.errors import FencedLeaderEpoch, FencedStateEpoch, InvalidRequest
from sharegroup.model.share_state import DelayedRow, StateBatch
from sharegroup.share_state.answers import CopiedState, ReadResult, StateSummary
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.records import KeyedRecord, ShareSnapshot, ShareUpdate
from tests.share_state.states import BATCH, KEY, OTHER, initialized, write

# -- initialize


def test_initialize_writes_an_empty_snapshot() -> None:
    coordinator = ShareCoordinator()
    assert coordinator.initialize(KEY, 5, 100, 1_000) == [
        KeyedRecord(
            KEY,
            ShareSnapshot(
                snapshot_epoch=0,
                state_epoch=5,
                leader_epoch=-1,
                start_offset=100,
                delivery_complete_count=0,
                create_timestamp_ms=1_000,
                write_timestamp_ms=1_000,
                state_batches=(),
            ),
        )
    ]
    assert KEY in coordinator
    assert len(coordinator) == 1
    assert coordinator.summary(KEY) == StateSummary(5, -1, 100, 0)


def test_lag_is_unknown_until_a_start_is_known() -> None:
    assert initialized(-1).summary(KEY) == StateSummary(5, -1, -1, -1)


def test_initialize_again_empties_the_state_and_forgets_the_leader() -> None:
    coordinator = initialized()
    coordinator.read(KEY, 2, 2_000)
    write(coordinator, BATCH)
    (record,) = coordinator.initialize(KEY, 6, 50, 3_000)
    assert isinstance(record.value, ShareSnapshot)
    assert record.value.snapshot_epoch == 1
    assert coordinator.read(KEY, -1, 2_000)[0] == ReadResult(6, 50, ())
    assert coordinator.summary(KEY).leader_epoch == -1


def test_a_retry_of_initialize_is_no_change() -> None:
    coordinator = initialized()
    assert coordinator.initialize(KEY, 5, 0, 9_000) == []
    write(coordinator, BATCH)
    assert len(coordinator.initialize(KEY, 5, 0, 9_000)) == 1  # a reset to where it began


def test_initialize_with_an_old_state_epoch_is_fenced() -> None:
    with pytest.raises(FencedStateEpoch):
        initialized().initialize(KEY, 4, 0, 0)


@pytest.mark.parametrize(("state_epoch", "start"), [(-1, 0), (0, -2)])
def test_initialize_with_impossible_numbers(state_epoch: int, start: int) -> None:
    with pytest.raises(InvalidRequest):
        ShareCoordinator().initialize(KEY, state_epoch, start, 0)


# -- read


def test_a_new_leader_is_recorded_and_fences_the_old_one() -> None:
    coordinator = initialized(7)
    result, records = coordinator.read(KEY, 2, 2_000)
    assert result == ReadResult(5, 7, ())
    assert records == [
        KeyedRecord(
            KEY,
            ShareUpdate(
                snapshot_epoch=0,
                leader_epoch=2,
                start_offset=7,
                delivery_complete_count=0,
                state_batches=(),
            ),
        )
    ]
    assert coordinator.read(KEY, 2, 2_000)[1] == []
    assert coordinator.read(KEY, -1, 2_000)[1] == []
    with pytest.raises(FencedLeaderEpoch):
        coordinator.read(KEY, 1, 2_000)
    with pytest.raises(FencedLeaderEpoch):
        write(coordinator, BATCH, leader_epoch=1)


def test_a_key_that_was_never_initialised() -> None:
    coordinator = ShareCoordinator()
    with pytest.raises(InvalidRequest):
        coordinator.read(KEY, 0, 2_000)
    with pytest.raises(InvalidRequest):
        write(coordinator, BATCH)
    assert coordinator.summary(KEY) == StateSummary(0, 0, -1, -1)


def test_a_leader_epoch_below_the_sentinel() -> None:
    with pytest.raises(InvalidRequest):
        initialized().read(KEY, -2, 2_000)


# -- write


def test_a_write_is_an_update_with_its_own_batches() -> None:
    coordinator = initialized()
    coordinator.read(KEY, 2, 2_000)
    write(coordinator, StateBatch(30, 39, 0, 1))
    record = write(coordinator, BATCH, start_offset=5, complete=10, leader_epoch=9)
    assert record.value == ShareUpdate(
        snapshot_epoch=0,
        leader_epoch=2,  # a write does not raise it
        start_offset=5,
        delivery_complete_count=10,
        state_batches=(BATCH,),
    )
    assert coordinator.read(KEY, -1, 2_000)[0] == ReadResult(
        5, 5, (BATCH, StateBatch(30, 39, 0, 1))
    )


def test_epochs_of_minus_one_are_not_checked() -> None:
    coordinator = initialized()
    coordinator.read(KEY, 7, 2_000)
    record = write(coordinator, BATCH, state_epoch=-1, leader_epoch=-1)
    assert isinstance(record.value, ShareUpdate)
    assert record.value.leader_epoch == 7


def test_a_write_of_an_old_state_epoch_is_fenced() -> None:
    with pytest.raises(FencedStateEpoch):
        write(initialized(), BATCH, state_epoch=4)


def test_minus_one_leaves_start_and_count() -> None:
    coordinator = initialized(3)
    write(coordinator, BATCH, start_offset=8, complete=4)
    write(coordinator, start_offset=-1, complete=-1)
    assert coordinator.summary(KEY) == StateSummary(5, -1, 8, 4)
    write(coordinator, start_offset=-1, complete=6)
    assert coordinator.summary(KEY) == StateSummary(5, -1, 8, 6)


def test_the_start_never_goes_back() -> None:
    coordinator = initialized(3)
    write(coordinator, start_offset=8, complete=4)
    write(coordinator, start_offset=5, complete=1)
    assert coordinator.summary(KEY) == StateSummary(5, -1, 8, 4)


def test_the_count_never_goes_back_at_the_same_start() -> None:
    coordinator = initialized(3)
    write(coordinator, start_offset=8, complete=4)
    write(coordinator, start_offset=8, complete=1)
    assert coordinator.summary(KEY) == StateSummary(5, -1, 8, 4)
    write(coordinator, start_offset=12, complete=0)
    assert coordinator.summary(KEY) == StateSummary(5, -1, 12, 0)


def test_a_new_start_without_a_count_makes_it_unknown() -> None:
    coordinator = initialized(3)
    write(coordinator, start_offset=8, complete=4)
    write(coordinator, start_offset=9, complete=-1)
    assert coordinator.summary(KEY) == StateSummary(5, -1, 9, -1)


@pytest.mark.parametrize(
    "batch",
    [
        StateBatch(5, 4, 0, 1),
        StateBatch(-1, 4, 0, 1),
        StateBatch(0, 4, 1, 1),
        StateBatch(0, 4, 9, 1),
        StateBatch(0, 4, 0, -1),
    ],
)
def test_a_batch_that_is_no_durable_state_changes_nothing(batch: StateBatch) -> None:
    coordinator = initialized()
    with pytest.raises(InvalidRequest):
        write(coordinator, BATCH, batch)
    assert coordinator.read(KEY, -1, 2_000)[0].batches == ()


def test_after_enough_updates_a_write_is_a_snapshot() -> None:
    coordinator = ShareCoordinator(updates_per_snapshot=3)
    coordinator.initialize(KEY, 5, 0, 1_000)
    kinds = []
    for offset in range(9):
        record = write(coordinator, StateBatch(offset, offset, 2, 1), now_ms=2_000 + offset)
        kinds.append(type(record.value))
    assert kinds == [ShareUpdate] * 3 + [ShareSnapshot] + [ShareUpdate] * 3 + [ShareSnapshot] + [
        ShareUpdate
    ]
    assert isinstance(record.value, ShareUpdate)
    assert record.value.snapshot_epoch == 2
    assert coordinator.read(KEY, -1, 2_000)[0].batches == (StateBatch(0, 8, 2, 1),)


def test_every_write_is_a_snapshot_when_there_are_to_be_no_updates() -> None:
    coordinator = ShareCoordinator(updates_per_snapshot=0)
    coordinator.initialize(KEY, 0, 100, 1_000)
    write(
        coordinator,
        StateBatch(100, 109, 0, 1),
        StateBatch(110, 119, 0, 2),
        StateBatch(120, 129, 0, 1),
        start_offset=100,
    )
    write(coordinator, StateBatch(100, 109, 2, 1), start_offset=-1, complete=10)
    record = write(coordinator, StateBatch(120, 129, 2, 2), start_offset=110, complete=10)
    assert record.value == ShareSnapshot(
        snapshot_epoch=3,
        state_epoch=0,
        leader_epoch=-1,
        start_offset=110,
        delivery_complete_count=10,
        create_timestamp_ms=2_000,
        write_timestamp_ms=2_000,
        state_batches=(StateBatch(110, 119, 0, 2), StateBatch(120, 129, 2, 2)),
    )
    read = coordinator.read(KEY, 3, 4_000)[1]
    assert isinstance(read[0].value, ShareSnapshot)
    assert read[0].value.leader_epoch == 3


def test_a_count_goes_down_by_a_snapshot_only() -> None:
    coordinator = initialized()
    write(coordinator, StateBatch(0, 9, 0, 3))
    write(coordinator, StateBatch(4, 4, 0, 2))
    assert coordinator.read(KEY, -1, 2_000)[0].batches == (StateBatch(0, 9, 0, 3),)
    lower = (StateBatch(4, 4, 0, 2), StateBatch(8, 12, 0, 1))
    record = coordinator.write(KEY, 5, 2, 0, 0, lower, 2_000, lowers=True)
    assert isinstance(record.value, ShareSnapshot)
    assert record.value.snapshot_epoch == 1
    assert record.value.state_batches == (
        StateBatch(0, 3, 0, 3),
        StateBatch(4, 4, 0, 2),
        StateBatch(5, 7, 0, 3),
        StateBatch(8, 12, 0, 1),
    )
    write(coordinator, StateBatch(4, 4, 0, 3))
    found = coordinator.read(KEY, -1, 2_000)[0].batches
    assert [row[2:] for row in found if row[0] <= 4 <= row[1]] == [(0, 3)]


def test_a_long_pile_is_merged() -> None:
    coordinator = ShareCoordinator(updates_per_snapshot=10_000)
    coordinator.initialize(KEY, 5, 0, 1_000)
    for offset in range(2_000):
        write(coordinator, StateBatch(offset, offset, 2, 1))
    state = coordinator._states[KEY]
    assert len(state.batches) + len(state.pile) < 600


# -- delete, replay


def test_delete_is_idempotent() -> None:
    coordinator = initialized()
    assert coordinator.delete(KEY) == [KeyedRecord(KEY, None)]
    assert coordinator.delete(KEY) == []
    assert KEY not in coordinator


COMMANDS = st.lists(
    st.one_of(
        st.tuples(st.just("initialize"), st.integers(0, 3), st.integers(-1, 9)),
        st.tuples(st.just("read"), st.integers(-1, 3), st.just(0)),
        st.tuples(st.sampled_from(["write", "lower"]), st.integers(-1, 12), st.integers(0, 20)),
        st.tuples(st.just("delete"), st.just(0), st.just(0)),
    ),
    max_size=40,
)


@given(COMMANDS)
def test_replaying_the_records_gives_the_same_state(commands: list[tuple[str, int, int]]) -> None:
    live = ShareCoordinator(updates_per_snapshot=2)
    records: list[KeyedRecord] = []
    for name, one, two in commands:
        try:
            if name == "initialize":
                records += live.initialize(KEY, one, two, 1_000)
            elif name == "read":
                records += live.read(KEY, one, 2_000)[1]
            elif name in ("write", "lower"):
                batch = StateBatch(two, two + 3, 2, 1 + two % 3)
                lowers = name == "lower"
                records.append(live.write(KEY, 9, -1, one, one, (batch,), 2_000, lowers=lowers))
                if lowers and two >= live.summary(KEY).start_offset:
                    found = live.read(KEY, -1, 2_000)[0].batches
                    assert [row[2:] for row in found if row[0] <= two <= row[1]] == [batch[2:]]
            else:
                records += live.delete(KEY)
        except (InvalidRequest, FencedLeaderEpoch, FencedStateEpoch):
            continue
    replayed = ShareCoordinator(updates_per_snapshot=2)
    for offset, (key, value) in enumerate(records):
        replayed.replay(key, value, offset)
    live.check_invariants()
    replayed.check_invariants()
    assert live.summary(KEY) == replayed.summary(KEY)
    assert (KEY in live) == (KEY in replayed)
    if KEY in live:
        assert live.read(KEY, -1, 2_000) == replayed.read(KEY, -1, 2_000)
        assert live.write(KEY, 9, -1, -1, -1, (), 3) == replayed.write(
            KEY, 9, -1, -1, -1, (), 3
        )  # the same number of updates since the snapshot, too


def test_a_replayed_snapshot_replaces_everything() -> None:
    coordinator = ShareCoordinator()
    first = ShareSnapshot(
        snapshot_epoch=0,
        state_epoch=0,
        leader_epoch=1,
        start_offset=0,
        delivery_complete_count=11,
        create_timestamp_ms=1_000,
        write_timestamp_ms=1_000,
        state_batches=(StateBatch(0, 10, 0, 1),),
    )
    second = replace(
        first,
        snapshot_epoch=1,
        state_epoch=1,
        leader_epoch=2,
        delivery_complete_count=13,
        state_batches=(StateBatch(11, 12, 0, 1),),
    )
    coordinator.replay(KEY, first, 0)
    assert coordinator.summary(KEY) == StateSummary(0, 1, 0, 11)
    assert coordinator.read(KEY, -1, 0)[0].batches == first.state_batches
    coordinator.replay(KEY, second, 1)
    assert coordinator.summary(KEY) == StateSummary(1, 2, 0, 13)
    assert coordinator.read(KEY, -1, 0)[0].batches == second.state_batches
    coordinator.replay(KEY, None, 2)
    assert KEY not in coordinator


def test_kafkas_update_with_minus_one_leaves_start_leader_and_count() -> None:
    coordinator = initialized(7)
    coordinator.read(KEY, 4, 2_000)
    write(coordinator, start_offset=7, complete=3, leader_epoch=4)
    update = ShareUpdate(
        snapshot_epoch=0,
        leader_epoch=-1,
        start_offset=-1,
        delivery_complete_count=-1,
        state_batches=(BATCH,),
    )
    coordinator.replay(KEY, update, 5)
    assert coordinator.summary(KEY) == StateSummary(5, 4, 7, 3)
    assert coordinator.read(KEY, -1, 0)[0].batches == (BATCH,)


def test_an_update_without_its_snapshot_is_left_out() -> None:
    source = initialized()
    update = write(source, BATCH)
    coordinator = ShareCoordinator()
    coordinator.replay(*update, 10)
    assert KEY not in coordinator
    (snapshot,) = source.initialize(KEY, 6, 0, 3_000)
    coordinator.replay(*snapshot, 11)
    coordinator.replay(*update, 12)  # of the epoch before
    assert coordinator.read(KEY, -1, 2_000)[0].batches == ()


# -- fork


def test_a_fork_has_the_state_and_no_leader() -> None:
    coordinator = initialized(0)
    rests = DelayedRow(30, 39, 2, 9_000)
    write(coordinator, BATCH, complete=10)
    coordinator.write(KEY, 5, 2, -1, -1, (StateBatch(30, 39, 0, 2),), 2_000, delayed=(rests,))
    copied = coordinator.copy(KEY)
    goal = KEY._replace(group_id="other")
    (record,) = coordinator.fork(goal, 7, copied, 3_000)
    coordinator.check_invariants()
    replayed = ShareCoordinator()
    replayed.replay(goal, record.value, 0)
    for one in (coordinator, replayed):
        assert one.copy(goal) == copied
        assert one.summary(goal) == StateSummary(7, -1, 0, 10)
        result, _ = one.read(goal, 1, 4_000)
        assert result == ReadResult(7, 0, (BATCH, StateBatch(30, 39, 0, 2)), (rests,))


def test_a_fork_is_fenced_and_keeps_the_claims_to_dead_letters() -> None:
    coordinator = initialized(0)
    assert coordinator.copy(OTHER) == CopiedState(-1, -1)
    dead = DeadRecords(3, 4, 1, Cause.REJECTED, "anna")
    coordinator.write(KEY, 5, 2, 0, 2, (StateBatch(3, 4, 4, 1),), 2_000, dead=(dead,))
    copied = CopiedState(8, 0)
    with pytest.raises(FencedStateEpoch):
        coordinator.fork(KEY, 4, copied, 3_000)
    coordinator.fork(KEY, 6, copied, 3_000)
    assert coordinator.dead(KEY) == [dead]
    assert coordinator.copy(KEY) == copied
