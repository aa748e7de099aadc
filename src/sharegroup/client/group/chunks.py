"""The records of one partition that one fetch brought.

The bytes are not trusted: batches are checked as a share consumer checks them. A damaged batch ends
the chunk with an error; the records before it come first, and the batches after it are fetched
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from operator import ge
from typing import Any, Final, NamedTuple
from uuid import UUID

from sharegroup.client.core.positions import NO_EPOCH, Position
from sharegroup.client.core.record import ConsumerRecord, Fields, RecordSpan
from sharegroup.client.errors import CorruptRecordBatch, RecordDeserializationError
from sharegroup.client.records.batch_reader import pieces_of, records_of
from sharegroup.client.records.damage import note_astray
from sharegroup.client.records.decode import Decoding, deserialized_fields, not_collecting
from sharegroup.client.records.hidden import hidden_ranges
from sharegroup.cooperative.intervals import Interval, Intervals, common, holds, normal
from sharegroup.model.errors import CorruptMessage, SharegroupError
from sharegroup.model.ids import TopicPartition
from sharegroup.model.log import AbortedTransaction
from sharegroup.records.batches import Bounds, Placed, bounds_of, place

ENDLESS: Final = 2**63 - 1
_EPOCH_AT: Final = 12
_EPOCH_END: Final = 16


class FetchedBytes(NamedTuple):
    """The bytes of one partition in a Fetch response.

    ``version``: the version of the position that was asked for.
    """

    where: TopicPartition
    version: int
    position: Position
    high_watermark: int
    data: bytes
    aborted: Sequence[AbortedTransaction]
    read_up_to: int = -1
    """With key ranges, the offset where the next fetch begins."""
    holes: Intervals = ()
    """With key ranges, the offsets that no record has."""
    done: Intervals = ()
    """The offsets that the group is done with: their records are left out."""
    given: Intervals = ()
    """In a turn, the offsets that this member has got; all others are in ``done``."""
    topic_id: UUID | None = None
    """The topic that was read; None: not known."""

    @property
    def behind(self) -> int:
        """The least offset after everything that the fetch covers."""
        return min(self.read_up_to, self.high_watermark)


class Chunk:
    """Records that wait for the application.

    Attributes:
        records: the records, ascending in offset.
        end: the position after all of them.
        error: raised when all records have been taken; None: nothing is wrong.
        holes: with key ranges, the offsets that are passed over: no record has them, or their
            record cannot be read, or its transaction was aborted. Without key ranges this is not
            complete: every offset before ``end`` without a record here is passed over.
    """

    __slots__ = ("_at", "end", "error", "holes", "records", "version", "where")

    def __init__(
        self,
        fetched: FetchedBytes,
        records: list[ConsumerRecord[Any, Any]],
        end: Position,
        error: SharegroupError | None,
    ) -> None:
        self.where = fetched.where
        self.version = fetched.version
        self.records = records
        self.end = end
        self.error = error
        self.holes = fetched.holes
        self._at = 0

    def take(self, count: int) -> tuple[list[ConsumerRecord[Any, Any]], Position]:
        """The next records, at most ``count``, and the position after them."""
        taken = self.records[self._at : self._at + count]
        self._at += len(taken)
        if self.empty or not taken:
            return taken, self.end
        return taken, Position(taken[-1].offset + 1, taken[-1].leader_epoch)

    @property
    def empty(self) -> bool:
        """No records are left. The error may be left."""
        return self._at >= len(self.records)


def decode_chunk(fetched: FetchedBytes, decoding: Decoding) -> Chunk:
    """Read the batches of a fetch from the position on."""
    with not_collecting():
        return _decode(fetched, decoding)


def _decode(fetched: FetchedBytes, decoding: Decoding) -> Chunk:
    where, first_wanted = fetched.where, fetched.position.offset
    hidden, data = hidden_ranges(fetched.data, fetched.aborted, decoding.check_crcs)
    placed = _read(data, fetched, hidden, decoding.check_crcs)
    epochs = epochs_of(data)
    records: list[ConsumerRecord[Any, Any]] = []
    end = fetched.position
    for piece in placed.pieces:
        epoch = epochs.get(piece.first, NO_EPOCH)
        behind = Position(piece.last + 1, epoch)
        if piece.damage is not None:
            error = CorruptRecordBatch(where, piece.first, str(piece.damage) or repr(piece.damage))
            behind = Position(past_damage(piece.last, fetched), end.leader_epoch)
            lost = (piece.first, behind.offset - 1)
            return _with_holes(Chunk(fetched, records, behind, error), fetched, [*hidden, lost])
        mine = piece.value or ()
        if piece.first < first_wanted:
            mine = [one for one in mine if one[0] >= first_wanted]
        if fetched.done:  # before a deserializer may refuse one of them
            mine = [one for one in mine if not holds(fetched.done, one[0])]
        refusal = _add(records, mine, RecordSpan(where, epoch, fetched.topic_id), decoding)
        if refusal is not None:
            behind = Position(refusal.offset, end.leader_epoch)
            # The holes behind it come again with the next fetch.
            return _with_holes(Chunk(fetched, records, behind, refusal), fetched, hidden)
        if behind.offset > end.offset:
            end = behind
    note_astray(where, placed.astray, placed.cut)
    if placed.cut is not None and not placed.pieces:
        return Chunk(fetched, [], end, CorruptRecordBatch(where, end.offset, str(placed.cut)))
    if end == fetched.position and data and placed.cut is None:
        nowhere = CorruptRecordBatch(where, end.offset, "no batch of this fetch has that offset")
        return Chunk(fetched, [], Position(end.offset + 1, end.leader_epoch), nowhere)
    if fetched.behind > end.offset and placed.cut is None:
        end = Position(fetched.behind, end.leader_epoch)
    return _with_holes(Chunk(fetched, records, end, None), fetched, hidden)


def _with_holes(chunk: Chunk, fetched: FetchedBytes, hidden: Iterable[Interval]) -> Chunk:
    chunk.holes = passed_over(fetched, hidden, chunk.end)
    return chunk


def passed_over(fetched: FetchedBytes, hidden: Iterable[Interval], end: Position) -> Intervals:
    """With key ranges, the offsets before ``end`` that no record has, or whose record is
    ``hidden``."""
    if end.offset <= fetched.position.offset:
        return ()
    passed = normal((*fetched.holes, *hidden))
    return common(passed, ((fetched.position.offset, end.offset - 1),))


def _add(
    records: list[ConsumerRecord[Any, Any]],
    fields: Sequence[Fields],
    span: RecordSpan,
    decoding: Decoding,
) -> RecordDeserializationError | None:
    """Add these records, up to the first one that a deserializer refuses. Returns its error."""
    if decoding.plain:
        records += map(ConsumerRecord, fields, repeat(span))
        return None
    for one in fields:
        try:
            mine = deserialized_fields(one, span.topic_partition, decoding)
        except RecordDeserializationError as error:
            return error
        records.append(ConsumerRecord(mine, span))
    return None


def _read(
    data: bytes, fetched: FetchedBytes, hidden: Sequence[tuple[int, int]], check_crcs: bool
) -> Placed[list[Any] | None]:
    """Read the batches. No checksum covers a base offset, so base offsets are checked here: they
    must ascend, and lie in the log."""
    first_wanted, last = fetched.position.offset, fetched.high_watermark - 1

    def wanted(first: int, last: int) -> bool:
        if last < first_wanted:
            return False
        return not any(begin <= first and last <= end for begin, end in hidden)

    def read(one: Bounds) -> list[Any] | None:
        return records_of(one.batch, check_crcs) if wanted(one.first, one.last) else None

    pieces = pieces_of(data, check_crcs, wanted)
    ends = [] if pieces is None else [first_wanted - 1, *(one.last for one in pieces)]
    if pieces is None or ends[-1] > last or any(map(ge, ends, ends[1:])):
        return place(memoryview(data), last, read)
    return Placed(pieces, [], None)


def past_damage(last: int, fetched: FetchedBytes) -> int:
    """The offset after a damaged batch. The batch's own claim counts only up to the end of the log,
    as the broker gives it.
    """
    return max(fetched.position.offset + 1, min(last + 1, fetched.high_watermark))


def epochs_of(data: bytes) -> dict[int, int]:
    """The leader epoch of each batch, by its base offset."""
    found = {}
    try:
        for one in bounds_of(memoryview(data)):
            found[one.first] = int.from_bytes(one.batch[_EPOCH_AT:_EPOCH_END], "big", signed=True)
    except CorruptMessage:
        return found  # the decoder reports the damage
    return found
