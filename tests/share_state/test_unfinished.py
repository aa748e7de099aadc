"""What of a share partition is unfinished, for retention."""

from __future__ import annotations

from uuid import UUID

import pytest

from sharegroup.model.dead_records import Cause, DeadRecords
from sharegroup.model.ids import SharePartitionKey
from sharegroup.model.offsets import OFFSET_MAX
from sharegroup.share_state.answers import Unfinished
from sharegroup.share_state.coordinator import ShareCoordinator

TOPIC, OTHER_TOPIC = UUID(int=1), UUID(int=2)
KEY = SharePartitionKey("g", TOPIC, 0)
NONE_DEAD = OFFSET_MAX


def test_the_start_offset_and_the_first_dead_record() -> None:
    coordinator = ShareCoordinator()
    for key in (KEY, KEY._replace(partition=1), KEY._replace(topic_id=OTHER_TOPIC)):
        coordinator.initialize(key, 0, -1, 0)
    coordinator.initialize(KEY._replace(group_id="other"), 0, 3, 0)
    wanted = {TOPIC: frozenset({"g", "no state"})}
    assert coordinator.unfinished(wanted) == {
        KEY: Unfinished(-1, NONE_DEAD),
        KEY._replace(partition=1): Unfinished(-1, NONE_DEAD),
    }
    dead = tuple(DeadRecords(at, at, 1, Cause.REJECTED, "m") for at in (7, 5))
    coordinator.write(KEY, -1, -1, 9, -1, (), 1, dead=dead)
    assert coordinator.unfinished(wanted)[KEY] == Unfinished(9, 5)
    coordinator.initialize(KEY, 1, 2, 2)
    assert coordinator.unfinished(wanted)[KEY] == Unfinished(2, 5)
    assert coordinator.unfinished({}) == {}


@pytest.mark.parametrize(
    ("durable", "now", "unfinished"),
    [
        (Unfinished(5, NONE_DEAD), Unfinished(9, 7), Unfinished(5, 7)),  # not durable yet
        (Unfinished(9, 7), Unfinished(9, NONE_DEAD), Unfinished(9, 7)),  # a letter neither
        (Unfinished(9, NONE_DEAD), Unfinished(2, NONE_DEAD), Unfinished(2, NONE_DEAD)),  # back
        (Unfinished(-1, NONE_DEAD), Unfinished(9, NONE_DEAD), Unfinished(0, 0)),  # just begun
        (None, Unfinished(9, NONE_DEAD), Unfinished(0, 0)),  # just made
        (Unfinished(9, NONE_DEAD), Unfinished(-1, NONE_DEAD), Unfinished(-1, NONE_DEAD)),  # reset
    ],
)
def test_what_is_not_durably_finished_is_unfinished(
    durable: Unfinished | None, now: Unfinished, unfinished: Unfinished
) -> None:
    assert now.since(durable) == unfinished
