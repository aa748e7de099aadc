from __future__ import annotations

from uuid import UUID

import pytest

from sharegroup.model.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)
from sharegroup.model.ids import TopicIdPartition
from sharegroup.share.session import ShareSessions, next_epoch

A, B, C = (TopicIdPartition(UUID(int=1), number) for number in range(3))


def opened(*partitions: TopicIdPartition, limit: int = 10) -> ShareSessions:
    sessions = ShareSessions(limit)
    sessions.open("g", "m", partitions, "connection 1")
    return sessions


def test_epochs_count_from_one_and_wrap_to_one() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, 2**31 - 1)] == [1, 2, 1]


def test_a_session_follows_its_epochs() -> None:
    sessions = opened(A)
    for epoch in (1, 2, 3):
        assert sessions.update("g", "m", epoch).epoch == epoch


@pytest.mark.parametrize("epoch", [0, 2, -2])
def test_any_other_epoch_is_refused_and_changes_nothing(epoch: int) -> None:
    sessions = opened(A)
    with pytest.raises(InvalidShareSessionEpoch):
        sessions.update("g", "m", epoch, add=[B])
    assert list(sessions.update("g", "m", 1).partitions) == [A]


def test_a_session_that_is_not_there() -> None:
    sessions = opened(A)
    with pytest.raises(ShareSessionNotFound):
        sessions.update("g", "other", 1)
    with pytest.raises(ShareSessionNotFound):
        sessions.update("other", "m", 1)
    with pytest.raises(ShareSessionNotFound):
        sessions.close("g", "other")


@pytest.mark.parametrize(
    ("epoch", "error"), [(0, InvalidShareSessionEpoch), (1, ShareSessionNotFound)]
)
def test_without_a_session_only_epoch_zero_is_called_a_wrong_epoch(
    epoch: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        ShareSessions(1).update("g", "m", epoch)


def test_the_last_epoch_is_followed_by_one() -> None:
    sessions = opened(A)
    session = sessions.get("g", "m")
    assert session is not None
    session.epoch = 2**31 - 2
    assert sessions.update("g", "m", 2**31 - 1).rotated() == [A]
    with pytest.raises(InvalidShareSessionEpoch):
        sessions.update("g", "m", 0)
    assert sessions.update("g", "m", 1).epoch == 1


def test_an_error_is_remembered_until_it_is_gone() -> None:
    session = opened(A).update("g", "m", 1)
    assert not session.knows_error(A)
    session.must_list(A, has_error=True)
    assert session.knows_error(A)
    session.must_list(A)
    assert not session.knows_error(A)


def test_the_opening_request_cannot_acknowledge() -> None:
    with pytest.raises(InvalidRequest):
        ShareSessions(1).open("g", "m", [A], 1, has_acknowledgements=True)


def test_opening_again_replaces_the_session_and_its_connection() -> None:
    sessions = opened(A)
    sessions.update("g", "m", 1)
    session = sessions.open("g", "m", [B], "connection 2")
    sessions.check_invariants()
    assert sessions.get("g", "m") is session
    assert sessions.close_connection("connection 1") == []
    assert sessions.update("g", "m", 1).partitions == {B: None}


def test_at_the_limit_new_sessions_are_refused_but_a_replacement_is_not() -> None:
    sessions = opened(A, limit=1)
    with pytest.raises(ShareSessionLimitReached):
        sessions.open("g", "n", [A], 1)
    sessions.open("g", "m", [A], 1)
    sessions.close("g", "m")
    sessions.open("g", "n", [A], 1)
    assert len(sessions) == 1


def test_partitions_are_added_and_forgotten_in_order() -> None:
    sessions = opened(A)
    session = sessions.update("g", "m", 1, add=[C, A, B], forget=[A])
    assert list(session.partitions) == [C, B]


def test_rotation_by_epoch() -> None:
    sessions = opened(A, B, C)
    session = sessions.get("g", "m")
    assert session is not None
    assert session.rotated() == [A, B, C]
    assert sessions.update("g", "m", 1).rotated() == [B, C, A]
    assert sessions.update("g", "m", 2).rotated() == [C, A, B]
    assert sessions.update("g", "m", 3).rotated() == [A, B, C]
    assert sessions.update("g", "m", 4, forget=[A, B, C]).rotated() == []


def test_a_new_partition_is_listed_once_and_an_error_once_more_after_it() -> None:
    session = opened(A).update("g", "m", 1, add=[B])
    assert [session.must_list(A), session.must_list(A)] == [True, False]
    assert [session.must_list(B), session.must_list(B)] == [True, False]
    assert session.must_list(A, has_error=True)
    assert [session.must_list(A), session.must_list(A)] == [True, False]
    assert session.must_list(C, has_error=True)
    assert not session.must_list(C)


def test_a_forgotten_partition_is_not_listed_any_more() -> None:
    session = opened(A, B).update("g", "m", 1, forget=[B])
    assert not session.must_list(B)


def test_closing() -> None:
    sessions = opened(A)
    assert sessions.close("g", "m").member_id == "m"
    assert len(sessions) == 0
    sessions.check_invariants()


def test_a_closed_connection_ends_its_sessions() -> None:
    sessions = opened(A)
    sessions.open("h", "m", [A], "connection 1")
    sessions.open("g", "n", [A], "connection 2")
    closed = sessions.close_connection("connection 1")
    assert [(s.group_id, s.member_id) for s in closed] == [("g", "m"), ("h", "m")]
    assert sessions.close_connection("connection 1") == []
    assert [s.member_id for s in sessions.of_group("g")] == ["n"]
    sessions.check_invariants()
