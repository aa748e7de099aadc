"""The offset JSON: what a checkpoint holds for years."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

import pytest

from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.offsets import INITIAL, Acquired, BatchOffset, Done, from_json, to_json

TOPIC = UUID(int=7)
OFFSET = BatchOffset(
    sequence=3,
    group_id="g",
    member_id="m",
    topics={TOPIC: "orders"},
    ranges={TopicIdPartition(TOPIC, 0): (Acquired(5, 9, 1), Acquired(12, 12, 4))},
    done={TopicIdPartition(TOPIC, 11): (Done(0, 4, 1),)},
    numbers={"at": 1_700_000_000_000, "took": 12},
)
TEXT = (
    '{"v": 1, "e": 3, "g": "g", "m": "m", "t": {"AAAAAAAAAAAAAAAAAAAABw": "orders"}, '
    '"r": {"AAAAAAAAAAAAAAAAAAAABw": {"0": [[5, 9, 1], [12, 12, 4]]}}, '
    '"d": {"AAAAAAAAAAAAAAAAAAAABw": {"11": [[0, 4, 1]]}}, '
    '"s": {"at": 1700000000000, "took": 12}}'
)


def test_the_format_is_pinned() -> None:
    assert json.dumps(to_json(OFFSET)) == TEXT
    assert from_json(json.loads(TEXT)) == OFFSET
    assert OFFSET.records == 6


def test_checkpoints_from_before_there_were_numbers_are_read() -> None:
    old = json.loads(TEXT)
    del old["s"]
    assert from_json(old) == replace(OFFSET, numbers={})


def test_the_initial_offset_is_constant() -> None:
    assert to_json(INITIAL) == {"v": 1, "e": 0}
    assert from_json({"v": 1, "e": 0}) == INITIAL


@pytest.mark.parametrize("foreign", [{"t": {"0": 23}}, {"v": 2, "e": 1}, {}])
def test_the_checkpoint_of_another_source_is_refused(foreign: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="use another checkpointLocation"):
        from_json(foreign)
