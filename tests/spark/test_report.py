"""A query's picture: read from checkpoints in Spark's format, told in sentences."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.report.checkpoint import Checkpoint, read_checkpoint
from sharegroup.spark.report.findings import findings, since
from sharegroup.spark.report.queue import Queue
from sharegroup.spark.report.terminal import bars, rows, text
from sharegroup.spark.slices import Acquired
from sharegroup.spark.source.offsets import BatchOffset, ClaimPosition, Done, to_json

TOPIC = UUID(int=7)
ZERO, ONE = TopicIdPartition(TOPIC, 0), TopicIdPartition(TOPIC, 1)
START = 1_700_000_000.0
HEAD = 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n'


def offset(
    sequence: int, count: int = 50, *, partition: TopicIdPartition = ZERO, again: int = 0
) -> BatchOffset:
    """A batch of ``count`` records, of which ``again`` come for the second time."""
    first = sequence * 10_000
    ranges = [Acquired(first, first + count - again - 1, 1)] if again < count else []
    if again:
        ranges.append(Acquired(first + count - again, first + count - 1, 2))
    return BatchOffset(
        sequence=sequence,
        group_id="g",
        member_id="m",
        topics={TOPIC: "jobs"},
        ranges={partition: tuple(ranges)},
        numbers={"took": 250, "settle": 40, "lag": 1_000 * sequence},
    )


def written(folder: Path, offsets: Sequence[BatchOffset], *, unfinished: int = 0) -> Path:
    """A checkpoint as Spark leaves it: a batch each ten seconds, each took two."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"1234"}')
    for number, one in enumerate(offsets):
        planned = folder / "offsets" / str(number)
        planned.write_text(HEAD + json.dumps(to_json(one)))
        (folder / "offsets" / f".{number}.crc").write_bytes(b"crc")
        at = START + 10 * number
        os.utime(planned, (at, at))
        if number < len(offsets) - unfinished:
            finished = folder / "commits" / str(number)
            finished.write_text('v1\n{"nextBatchWatermarkMs":0}')
            os.utime(finished, (at + 2, at + 2))
    return folder


def told(checkpoint: Checkpoint, after_s: float = 0, *queues: Queue) -> list[str]:
    return findings(checkpoint, checkpoint.batches[-1].planned_at + after_s, queues)


def queue(**said: Any) -> Queue:
    known: dict[str, Any] = {
        "exists": True,
        "lag": {},
        "held": {},
        "members": (),
        "locks_max": None,
        **said,
    }
    return Queue(group_id="g", **known)


def test_batches_and_their_phases(tmp_path: Path) -> None:
    found = read_checkpoint(written(tmp_path, [offset(1), offset(2, again=20), offset(2)]))
    assert (found.query_id, found.groups, found.topics) == ("1234", ("g",), ("jobs",))
    first, second, third = found.batches
    assert (first.records, first.run_s, first.acquire_s, first.settle_s) == (50, 2.0, 0.25, 0.04)
    assert (second.redelivered, second.lag, second.locks) == (20, 2_000, {"jobs-0": 50})
    assert (third.records, third.locks, third.lag) == (0, {}, None)  # nothing new: same offset
    assert second.settle_s is None
    assert found.unreadable == ()


def test_a_checkpoint_without_numbers_is_read_too(tmp_path: Path) -> None:
    written(tmp_path, [offset(1)])
    old = json.loads((tmp_path / "offsets" / "0").read_text().splitlines()[2])
    old.pop("s", None)
    (tmp_path / "offsets" / "0").write_text(HEAD + json.dumps(old))
    (batch,) = read_checkpoint(tmp_path).batches
    assert (batch.records, batch.acquire_s, batch.lag) == (50, None, None)


def test_other_sources_and_format_2(tmp_path: Path) -> None:
    written(tmp_path, [offset(1)])
    lines = f'0:-\nkafka:{{"jobs":{{"0":5}}}}\nqueue:{json.dumps(to_json(offset(1)))}'
    (tmp_path / "offsets" / "0").write_text(HEAD.replace("v1", "v2") + lines)
    (batch,) = read_checkpoint(tmp_path).batches
    assert batch.records == 50


def test_a_batch_that_is_not_finished(tmp_path: Path) -> None:
    found = read_checkpoint(written(tmp_path, [offset(1), offset(2, 2_000)], unfinished=1))
    (sentence,) = told(found, 12 * 60)
    assert sentence.startswith(
        "batch 1 holds 2,000 locks of jobs-0 since 12 min and is not finished"
    )
    assert rows(found.batches)[0][1:] == ("▁█", "1,025", "2,000", "2,000")


def test_claimed_records_have_no_locks(tmp_path: Path) -> None:
    batches = [
        replace(offset(number, 2_000), claims=ClaimPosition("folder", number, 0))
        for number in range(1, 6)
    ]
    found = read_checkpoint(written(tmp_path, batches, unfinished=1))
    (sentence,) = told(found, 12 * 60)  # nor do locks bound the batches
    assert "batch 4 has 2,000 claimed records since 12 min and is not finished" in sentence


def test_an_idle_query_has_no_findings(tmp_path: Path) -> None:
    found = read_checkpoint(written(tmp_path, [offset(1), offset(2), offset(3, 7)]))
    assert told(found, 5) == []
    assert told(found, 3_600, queue(members=("m",), lag={"jobs-0": 0})) == []


def test_records_wait_and_no_batch_is_planned(tmp_path: Path) -> None:
    found = read_checkpoint(written(tmp_path, [offset(1)]))
    (alone,) = told(found, 722)
    assert alone.startswith("no batch was planned since 12 min, and 1,000 records were waiting")
    (gone,) = told(found, 722, queue(lag={"jobs-0": 5}))
    assert "5 records of jobs-0 wait, and the query is no member of g now" in gone
    (there,) = told(found, 722, queue(lag={"jobs-0": 5, "jobs-1": 1}, members=("m",)))
    assert "6 records (jobs-0: 5, jobs-1: 1) wait: see who holds them" in there
    (deleted,) = told(found, 722, queue(exists=False))
    assert deleted.startswith("the broker has no share group g")


def test_records_held_by_other_members(tmp_path: Path) -> None:
    found = read_checkpoint(written(tmp_path, [offset(1)]))
    held = {"jobs-0": {"m": 9, "other": 7, "dead": 3}}
    there, gone = told(found, 5, queue(held=held, members=("m", "other")))
    assert there == "7 records are held by other members of g: other: 7"
    assert gone.startswith("3 records of g are held by members that have left (dead: 3)")


def test_acknowledgements_without_an_answer(tmp_path: Path) -> None:
    last = BatchOffset(
        sequence=2,
        group_id="g",
        member_id="m",
        topics={TOPIC: "jobs"},
        done={ZERO: (Done(0, 3, 1),), ONE: (Done(5, 5, 3),)},
    )
    (sentence,) = told(read_checkpoint(written(tmp_path, [offset(1), last])))
    assert sentence.startswith("5 records (jobs-0: 4, jobs-1: 1) are done, and the broker has not")


def test_batches_bounded_by_the_lock_limit(tmp_path: Path) -> None:
    found = read_checkpoint(written(tmp_path, [offset(n, 2_000) for n in range(1, 6)]))
    (guessed,) = told(found)
    assert guessed.startswith(
        "a batch takes 2,000 records of jobs-0 and no more: a limit, of locks"
    )
    assert "at 2.3 s a batch that is 873 records/s" in guessed
    (known,) = told(found, 0, queue(locks_max=2_000))
    assert "the group's limit of locks" in known
    assert told(found, 0, queue(locks_max=4_000)) == []


def test_records_that_are_redelivered_often(tmp_path: Path) -> None:
    found = read_checkpoint(written(tmp_path, [offset(1, 70), offset(2, 50, again=20)]))
    (sentence,) = told(found)
    assert sentence.startswith("20 of the 120 records of the last 2 batches were delivered before")


def test_a_file_that_is_half_written(tmp_path: Path) -> None:
    written(tmp_path, [offset(1), offset(2), offset(3)])
    half = tmp_path / "offsets" / "1"
    half.write_text(half.read_text()[:-30])
    (tmp_path / "offsets" / "2").write_text("v1\n")
    found = read_checkpoint(tmp_path)
    assert [batch.number for batch in found.batches] == [0]
    damaged = told(found)
    assert damaged[0].startswith("offsets/1 is incomplete or damaged (")
    assert damaged[1] == (
        "offsets/2 is incomplete or damaged (it ends too early): it is left out here, and Spark "
        "will not start from it"
    )


def test_other_checkpoints_are_refused(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(ConfigError, match=r"there is no folder .*missing: name the query's"):
        read_checkpoint(missing)
    with pytest.raises(ConfigError, match="has no folder offsets"):
        read_checkpoint(tmp_path)
    empty = written(tmp_path / "empty", [])
    with pytest.raises(ConfigError, match="has not planned a batch yet"):
        read_checkpoint(empty)
    other = written(tmp_path / "other", [offset(1)])
    (other / "offsets" / "0").write_text(HEAD + '{"jobs":{"0":23}}')
    with pytest.raises(ConfigError, match="reads from no share group, or has read nothing yet"):
        read_checkpoint(other)
    (other / "offsets" / "0").write_text("")
    with pytest.raises(ConfigError, match=r"nothing in .* can be read: offsets/0 is incomplete"):
        read_checkpoint(other)
    (other / "offsets" / "0").write_text(HEAD + '{"v": 3, "e": 1}')
    with pytest.raises(ConfigError, match="the version of sharegroup that wrote it"):
        read_checkpoint(other)


def test_times_numbers_and_bars() -> None:
    assert [since(s) for s in (-1, 5, 119, 120, 7_199, 7_200, 300_000)] == [
        "0 s", "5 s", "119 s", "2 min", "120 min", "2 h", "3 d",
    ]  # fmt: skip
    assert [text(v) for v in (None, 2_000, 2.0, 0.0123, 1234.5)] == [
        "-", "2,000", "2", "0.0123", "1,234",
    ]  # fmt: skip
    assert bars([0, None, 4, 8]) == "▁·▅█"
    assert bars([None, 0]) == "·▁"
