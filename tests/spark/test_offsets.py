"""The offset JSON: what a checkpoint holds for years."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from uuid import UUID

import pytest

from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition, topic_id_text
from sharegroup.spark.slices import Acquired
from sharegroup.spark.source.offsets import (
    INITIAL,
    LISTED_MAX,
    BatchOffset,
    Done,
    from_json,
    to_json,
)

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


def test_checkpoints_without_numbers_are_read() -> None:
    old = json.loads(TEXT)
    del old["s"]
    assert from_json(old) == replace(OFFSET, numbers={})


def test_the_initial_offset_is_constant() -> None:
    assert to_json(INITIAL) == {"v": 1, "e": 0}
    assert from_json({"v": 1, "e": 0}) == INITIAL


def test_scattered_records_make_a_short_text() -> None:
    chance = random.Random(7)
    every_second = [Acquired(n, n, 1) for n in range(0, 200_000, 2)]
    by_chance = [Acquired(n, n, chance.choice((1, 1, 2))) for n in range(9, 200_009, 2)]
    for ranges, characters in ((every_second, 2_000), (by_chance, 40_000)):
        done = {TopicIdPartition(TOPIC, 0): tuple(Done(n, n, 3) for n in range(1, 99, 2))}
        offset = replace(OFFSET, ranges={TopicIdPartition(TOPIC, 4): tuple(ranges)}, done=done)
        text = json.dumps(to_json(offset))
        assert len(text) < characters
        assert json.loads(text)["v"] == 2  # what does not know such texts must not read them
        assert from_json(json.loads(text)) == offset


def test_few_ranges_are_a_list_as_ever() -> None:
    ranges = tuple(Acquired(n, n, 1) for n in range(0, 2 * LISTED_MAX, 2))
    few = to_json(replace(OFFSET, ranges={TopicIdPartition(TOPIC, 0): ranges}))
    assert few["v"] == 1
    assert few["r"][topic_id_text(TOPIC)]["0"] == [list(one) for one in ranges]


def test_damaged_text_is_reported_as_damaged() -> None:
    ranges = tuple(Acquired(n, n, 1) for n in range(0, 100, 2))
    value = to_json(replace(OFFSET, ranges={TopicIdPartition(TOPIC, 0): ranges}))
    text = value["r"][topic_id_text(TOPIC)]["0"]
    for damaged in (text[:-8], "AAAA" + text[4:], "no base64"):
        value["r"][topic_id_text(TOPIC)]["0"] = damaged
        with pytest.raises(ConfigError, match="the checkpoint is damaged"):
            from_json(value)


@pytest.mark.parametrize("foreign", [{"t": {"0": 23}}, {"v": 3, "e": 1}, {}])
def test_the_checkpoint_of_another_source_is_refused(foreign: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="use another checkpointLocation"):
        from_json(foreign)
