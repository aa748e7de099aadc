"""A stream's offset: the acquired ranges themselves, so that a replay reads exactly the same
records.

Spark writes an offset as one line of JSON into ``offsets/N`` before batch N runs, passes the
previous offset as ``start``, and compares offsets only for equality. Keys are short because an
offset is written for each batch::

    {"v": 1, "e": 7, "g": "group", "m": "member id", "t": {topic id: name},
     "r": {topic id: {partition: [[first, last, delivery count], …]}},
     "d": {topic id: {partition: [[first, last, type], …]}},
     "a": how it is answered, "c": [claim folder, number, taken], "n": newest claim,
     "s": {"at": …, "took": …, "settle": …, "lag": …, "redelivered": …, …}}

``e`` counts offsets of this stream. ``r`` is the batch. ``d`` holds records whose batch is done but
whose acknowledgement the broker has not confirmed: when they are delivered again they are
acknowledged with ``type`` and not processed again. Ranges include both ends. More than
``LISTED_MAX`` ranges of a partition are stored as a text, see
:mod:`~sharegroup.spark.source.range_text`; then ``v`` is 2, and older versions of sharegroup refuse
the checkpoint. ``a`` is the ``ackMode`` of the query that made the batch. ``c`` and ``n`` exist
with ``ackMode`` claim only: the place from which the next batch takes its records, and the newest
claim at that time. ``s`` is for people: when the offset was made (ms since 1970), how many
milliseconds it took to acquire the batch and to settle the previous one, the group's lag if it is
known, and how many records were redelivered, renewed, accepted, released and rejected since the
previous offset. Checkpoints without ``a`` and ``s`` can be read too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition, parse_topic_id, topic_id_text
from sharegroup.spark.slices import Acquired
from sharegroup.spark.source.range_text import packed, unpacked

VERSION: Final = 1
PACKED_VERSION: Final = 2
LISTED_MAX: Final = 16
"""Up to this many ranges are stored as a list that people can read."""


class Done(NamedTuple):
    """Records ``first`` … ``last``, processed, to be acknowledged with ``type`` (1 accept, 2
    release, 3 reject)."""

    first: int
    last: int
    type: int


class ClaimPosition(NamedTuple):
    """A place in a folder of claims: the claims before ``number`` are in batches, and so are the
    first ``taken`` records of claim ``number``."""

    folder: str
    number: int
    taken: int
    newest: int = 0
    """The newest claim when the offset was made; 0: an earlier version did not store it."""


Ranges = Mapping[TopicIdPartition, tuple[Acquired, ...]]
DoneRanges = Mapping[TopicIdPartition, tuple[Done, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOffset:
    """One offset of the stream."""

    sequence: int = 0
    group_id: str = ""
    member_id: str = ""
    topics: Mapping[Any, str] = field(default_factory=dict)
    """Topic id → name, of all topics in ``ranges`` and ``done``."""
    ranges: Ranges = field(default_factory=dict)
    done: DoneRanges = field(default_factory=dict)
    ack_mode: str = ""
    """``ackMode`` of the query that made the batch; empty: an earlier version did not store it."""
    claims: ClaimPosition | None = None
    """Where the batch ends in the claims; None: there are no claims."""
    numbers: Mapping[str, int] = field(default_factory=dict)
    """``s``, see the module."""

    @property
    def records(self) -> int:
        """How many records the batch holds at most: its offsets are counted."""
        return sum(r.last - r.first + 1 for ranges in self.ranges.values() for r in ranges)


INITIAL: Final = BatchOffset()


def to_json(offset: BatchOffset) -> dict[str, Any]:
    """The offset as Spark stores it; the initial offset is always ``{"v": 1, "e": 0}``."""
    if offset.sequence == 0:
        return {"v": VERSION, "e": 0}
    parts = (*offset.ranges.values(), *offset.done.values())
    return {
        "v": PACKED_VERSION if any(len(part) > LISTED_MAX for part in parts) else VERSION,
        "e": offset.sequence,
        "g": offset.group_id,
        "m": offset.member_id,
        "t": {topic_id_text(topic_id): name for topic_id, name in offset.topics.items()},
        "r": _nested(offset.ranges),
        "d": _nested(offset.done),
        **({"a": offset.ack_mode} if offset.ack_mode else {}),
        **({} if offset.claims is None else {"c": offset.claims[:3], "n": offset.claims.newest}),
        "s": dict(offset.numbers),
    }


def from_json(value: Any) -> BatchOffset:
    """The offset that :func:`to_json` wrote. Spark may give anything else that a checkpoint has.

    Raises:
        ConfigError: the checkpoint was written by another source or a newer version.
    """
    is_ours = isinstance(value, Mapping) and "e" in value
    if not is_ours or value.get("v") not in (VERSION, PACKED_VERSION):
        raise ConfigError(
            f"the checkpoint holds no offset of kafka-share that is known: {str(value)[:80]}; use "
            "another checkpointLocation, or the version of sharegroup that wrote it"
        )
    if value["e"] == 0:
        return INITIAL
    return BatchOffset(
        sequence=value["e"],
        group_id=value["g"],
        member_id=value["m"],
        topics={parse_topic_id(text): name for text, name in value["t"].items()},
        ranges={key: tuple(Acquired(*r) for r in ranges) for key, ranges in _flat(value["r"])},
        done={key: tuple(Done(*r) for r in ranges) for key, ranges in _flat(value["d"])},
        ack_mode=value.get("a", ""),
        claims=ClaimPosition._make([*value["c"], value.get("n", 0)]) if "c" in value else None,
        numbers=value.get("s", {}),
    )


def _nested(ranges: Mapping[TopicIdPartition, Iterable[tuple[int, int, int]]]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for (topic_id, partition), parts in ranges.items():
        rows = tuple(parts)
        nested.setdefault(topic_id_text(topic_id), {})[str(partition)] = (
            packed(rows) if len(rows) > LISTED_MAX else [list(row) for row in rows]
        )
    return nested


def _flat(nested: Mapping[str, Mapping[str, Any]]) -> Iterable[tuple[TopicIdPartition, Any]]:
    for topic_id, partitions in nested.items():
        for partition, ranges in partitions.items():
            rows = unpacked(ranges) if isinstance(ranges, str) else ranges
            yield TopicIdPartition(parse_topic_id(topic_id), int(partition)), rows
