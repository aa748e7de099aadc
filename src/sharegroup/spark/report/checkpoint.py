"""Reads a query's checkpoint: planned batches (``offsets/N``), finished ones (``commits/N``), and
their times (the modification times of the files).

Layout: Spark's classes OffsetSeqLog and CommitLog. The first line of a file is the format's
version. The second line of ``offsets/N`` is about the query. Then comes a line for each source (in
format 2 with the source's name and a colon before it). If a checkpoint was copied without its
modification times, durations are not known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition
from sharegroup.spark.slices import Acquired
from sharegroup.spark.source.offsets import BatchOffset, from_json

HEAD_LINES: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedBatch:
    """One batch of the query; times are seconds since 1970, durations seconds. None: not known."""

    number: int
    offsets: tuple[BatchOffset, ...]
    """The offset of each kafka-share source that has read something; the previous batch's offset
    if there was nothing new."""
    fresh: tuple[BatchOffset, ...]
    """The ``offsets`` that are new in this batch."""
    planned_at: float
    """When ``offsets/N`` was written."""
    finished_at: float | None
    """When ``commits/N`` was written; None: the batch is not finished."""
    settle_s: float | None = None
    """How long acknowledging took; the next batch records it."""

    @property
    def records(self) -> int:
        """How many offsets the batch holds."""
        return sum(offset.records for offset in self.fresh)

    @property
    def redelivered(self) -> int:
        """Records of the batch that were delivered before."""
        return sum(one.last - one.first + 1 for _, one in self._ranges() if one.delivery_count > 1)

    @property
    def locks(self) -> dict[str, int]:
        """Locked records by partition, as ``topic-partition``; claimed records have no locks."""
        found: dict[str, int] = {}
        locked = (one for one in self.fresh if one.claims is None)
        for name, one in _named((offset, offset.ranges) for offset in locked):
            found[name] = found.get(name, 0) + one.last - one.first + 1
        return found

    @property
    def unconfirmed(self) -> dict[str, int]:
        """Finished records of earlier batches whose acknowledgement is not confirmed."""
        found: dict[str, int] = {}
        for name, one in _named((offset, offset.done) for offset in self.fresh):
            found[name] = found.get(name, 0) + one.last - one.first + 1
        return found

    @property
    def acquire_s(self) -> float | None:
        """How long acquiring took."""
        return _seconds(self.number_of("took"))

    @property
    def run_s(self) -> float | None:
        """Seconds from planned to finished: Spark's tasks and the sink."""
        if self.finished_at is None or self.finished_at < self.planned_at:
            return None
        return self.finished_at - self.planned_at

    @property
    def lag(self) -> int | None:
        """The group's lag when the batch was planned."""
        return self.number_of("lag")

    @property
    def members(self) -> tuple[str, ...]:
        """The members that acquired the batch: one for each source."""
        return tuple(offset.member_id for offset in self.offsets)

    def number_of(self, name: str) -> int | None:
        """A number that the sources stored with the batch, summed over the sources."""
        known = [value for o in self.fresh if (value := o.numbers.get(name)) is not None]
        return sum(known) if known else None

    def _ranges(self) -> Iterator[tuple[str, Acquired]]:
        return _named((offset, offset.ranges) for offset in self.fresh)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a checkpoint shows of its query."""

    folder: Path
    query_id: str | None
    batches: tuple[ReportedBatch, ...]
    """The batches, ascending; Spark keeps the last 100 finished ones."""
    unreadable: tuple[str, ...]
    """Files that are incomplete or damaged, each with the reason."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The share groups of the last batch."""
        return tuple(dict.fromkeys(offset.group_id for offset in self.batches[-1].offsets))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the query read, by name."""
        found = (n for b in self.batches for o in b.offsets for n in o.topics.values())
        return tuple(sorted(set(found)))


def read_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in ``folder``.

    Raises:
        ConfigError: there is no checkpoint, it has no batch yet, or the query reads nothing from a
            share group; the text says which.
    """
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}: name the query's checkpointLocation")
    if not (folder / "offsets").is_dir():
        raise ConfigError(
            f"{folder} is no checkpoint of a streaming query: it has no folder offsets; name the "
            "query's checkpointLocation"
        )
    planned = _numbered(folder / "offsets")
    if not planned:
        raise ConfigError(f"the query of {folder} has not planned a batch yet: look again later")
    finished = {number: path.stat().st_mtime for number, path in _numbered(folder / "commits")}
    batches, unreadable = _batches(planned, finished)
    if not batches:
        raise ConfigError(f"nothing in {folder} can be read: {unreadable[0]}")
    if not any(batch.offsets for batch in batches):
        raise ConfigError(
            f"the query of {folder} reads from no share group, or has read nothing yet: only "
            "sources of the format kafka-share are shown"
        )
    return Checkpoint(
        folder=folder,
        query_id=_query_id(folder / "metadata"),
        batches=tuple(batches),
        unreadable=tuple(unreadable),
    )


def _numbered(folder: Path) -> list[tuple[int, Path]]:
    """(batch, file), ascending; skips other files: checksums, and Spark's temporary files."""
    if not folder.is_dir():
        return []
    return sorted((int(path.name), path) for path in folder.iterdir() if path.name.isdecimal())


def _batches(
    planned: Iterable[tuple[int, Path]], finished: Mapping[int, float]
) -> tuple[list[ReportedBatch], list[str]]:
    batches: list[ReportedBatch] = []
    unreadable: list[str] = []
    for number, path in planned:
        try:
            offsets = tuple(_offsets(path.read_text()))
            planned_at = path.stat().st_mtime
        except (OSError, ValueError, KeyError, TypeError, ConfigError) as error:
            unreadable.append(f"offsets/{number} is incomplete or damaged ({error})")
            continue
        before = {(o.group_id, o.member_id, o.sequence) for b in batches[-1:] for o in b.offsets}
        own = tuple(o for o in offsets if (o.group_id, o.member_id, o.sequence) not in before)
        batch = ReportedBatch(
            number=number,
            offsets=offsets,
            fresh=own,
            planned_at=planned_at,
            finished_at=finished.get(number),
        )
        batches.append(batch)
    following = [*batches[1:], None]
    return [_settled(*both) for both in zip(batches, following, strict=False)], unreadable


def _settled(batch: ReportedBatch, after: ReportedBatch | None) -> ReportedBatch:
    """The batch with its settling time, which the batch after it records."""
    return replace(batch, settle_s=None if after is None else _seconds(after.number_of("settle")))


def _offsets(text: str) -> Iterator[BatchOffset]:
    """The offsets of kafka-share sources that have read something.

    Raises:
        ValueError: the file ends too early.
    """
    lines = text.splitlines()
    if len(lines) <= HEAD_LINES or not lines[0].startswith("v"):
        raise ValueError("it ends too early")
    for line in lines[HEAD_LINES:]:
        start = line.find("{")
        if start < 0:  # "-": the source has read nothing
            continue
        value: Any = json.loads(line[start:])
        if isinstance(value, dict) and {"v", "e"} <= value.keys() and value["e"]:
            yield from_json(value)


def _query_id(path: Path) -> str | None:
    try:
        return str(json.loads(path.read_text())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _named(
    maps: Iterable[tuple[BatchOffset, Mapping[TopicIdPartition, tuple[Any, ...]]]],
) -> Iterator[tuple[str, Any]]:
    for offset, by_partition in maps:
        for (topic_id, partition), ranges in sorted(by_partition.items()):
            for one in ranges:
                yield f"{offset.topics.get(topic_id, topic_id)}-{partition}", one
