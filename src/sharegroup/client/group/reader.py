"""Takes fetched records for the application, and knows how far it has come with them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sharegroup.client.core.positions import Position, Positions
from sharegroup.client.core.record import ConsumerRecord
from sharegroup.client.core.uncommitted_ranges import Covered
from sharegroup.client.errors import RecordDeserializationError
from sharegroup.client.group.chunks import Chunk, FetchedBytes, decode_chunk
from sharegroup.client.group.fetcher import LogFetcher
from sharegroup.client.records.decode import Decoding
from sharegroup.cooperative.intervals import Intervals, common, minus, normal
from sharegroup.model.ids import TopicPartition

if TYPE_CHECKING:
    from sharegroup.client.group.arrow_chunks import ArrowChunk, RecordBatch

AnyRecord = ConsumerRecord[Any, Any]


class Reader:
    """See the module.

    When the application asks for more, it is done with the records that it had. A loop over records
    asks for each record; a poll asks for many at once.

    Attributes:
        coming: records of the last poll that a loop has not given out yet.
    """

    def __init__(
        self, positions: Positions, fetcher: LogFetcher, covered: Covered, decoding: Decoding
    ) -> None:
        self.coming: deque[AnyRecord] = deque()
        self._positions = positions
        self._fetcher = fetcher
        self._covered = covered
        self._decoding = decoding
        self._in_work: dict[TopicPartition, Position] = {}
        self._one_in_work: AnyRecord | None = None
        self._first_taken: dict[TopicPartition, Position] = {}
        self._refused: dict[TopicPartition, int] = {}
        """The record of each partition that the application was told of last, because a
        deserializer refuses it."""

    def take(self, count: int, *, in_turn: bool = False) -> list[AnyRecord]:
        """The next records, at most ``count``.

        Args:
            in_turn: the records that are left of a partition wait until the other partitions had
                their turn.

        Raises:
            CorruptRecordBatch, RecordDeserializationError: the next record cannot be read. Earlier
                calls have returned the records before it.
        """
        found: list[AnyRecord] = []
        self._first_taken = {}
        for one in self._next():
            chunk = self._decoded(one) if isinstance(one, FetchedBytes) else one
            assert isinstance(chunk, Chunk), "a consumer gives records or Arrow batches, not both"
            if chunk.empty and chunk.error is not None and found:
                self._fetcher.arrived.appendleft(chunk)
                break
            found += self._take_from(chunk, count - len(found))
            if len(found) >= count:
                break
        if in_turn:
            self._fetcher.arrived.rotate(-1)
        return found

    def take_arrow(self, make: Callable[[FetchedBytes], ArrowChunk]) -> RecordBatch | None:
        """The next Arrow batch, of one partition; None: there is none.

        Args:
            make: decodes fetched bytes.

        Raises:
            CorruptRecordBatch: as :meth:`take`.
        """
        for one in self._next():
            chunk = self._made(one, make) if isinstance(one, FetchedBytes) else one
            assert not isinstance(chunk, Chunk), "a consumer gives one form of records"
            failed = chunk.empty and chunk.error is not None
            rows, behind = chunk.take()
            if not failed and (not chunk.empty or chunk.error is not None):
                self._fetcher.arrived.appendleft(chunk)
            self._positions.advance(chunk.where, chunk.version, behind)
            if failed and chunk.error is not None:
                raise chunk.error
            if rows is not None:
                self._in_work = {chunk.where: Position(rows.column("offset")[0].as_py())}
                return rows
        return None

    def _made(
        self, fetched: FetchedBytes, make: Callable[[FetchedBytes], ArrowChunk]
    ) -> ArrowChunk:
        """The rows, without the records that the group is done with."""
        where = fetched.where
        if where not in self._covered:
            return make(fetched)
        if fetched.given:
            chunk = make(fetched)
            self._cover_turn(fetched, chunk, chunk.intervals())
            return chunk
        done = self._positions.done(where)
        chunk = make(fetched._replace(done=done))
        self._cover(fetched, chunk.intervals(), chunk.holes, chunk.end)
        return chunk

    def _cover(
        self, fetched: FetchedBytes, mine: Intervals, holes: Intervals, end: Position
    ) -> None:
        """Note the offsets that were read of a shared partition: of our records, and holes."""
        where, first = fetched.where, fetched.position.offset
        if fetched.read_up_to < 0:  # we read the whole partition: other offsets have no records
            holes = minus(((first, end.offset - 1),), mine) if first < end.offset else ()
        self._covered.read(where, mine, minus(holes, self._positions.done(where)))

    def _cover_turn(
        self, fetched: FetchedBytes, chunk: Chunk | ArrowChunk, mine: Intervals
    ) -> None:
        """Note the offsets that were read of a turn: of our records, and holes. What lies behind a
        record that cannot be read waits until its error was raised."""
        where, first, end = fetched.where, fetched.position.offset, chunk.end.offset
        read = common(fetched.given, ((first, end - 1),)) if first < end else ()
        self._covered.read_turn(where, mine, normal((*fetched.holes, *minus(read, mine))))
        if chunk.error is None:
            return
        if isinstance(chunk.error, RecordDeserializationError):
            end += 1
        left = minus(fetched.given, ((0, end - 1),))
        if left:
            rest = fetched._replace(position=Position(left[0][0]), holes=(), given=left)
            self._fetcher.arrived.appendleft(rest)
        else:
            chunk.end = Position(max(fetched.read_up_to, end), chunk.end.leader_epoch)

    def _next(self) -> Iterator[FetchedBytes | Chunk | ArrowChunk]:
        """Take out of the buffer, in order, the chunks that may be returned now."""
        waiting = self._fetcher.arrived
        for _ in range(len(waiting)):
            one = waiting.popleft()
            if not self._positions.is_current(one.where, one.version):
                continue
            if self._positions.is_paused(one.where):
                waiting.append(one)
                continue
            yield one

    def _decoded(self, fetched: FetchedBytes) -> Chunk:
        """The records, without the ones that the group is done with."""
        where = fetched.where
        if where not in self._covered:
            return decode_chunk(fetched, self._decoding)
        if not fetched.given:
            fetched = fetched._replace(done=self._positions.done(where))
        chunk = decode_chunk(fetched, self._decoding)
        mine = normal((one.offset, one.offset) for one in chunk.records)
        if fetched.given:
            self._cover_turn(fetched, chunk, mine)
        else:
            self._cover(fetched, mine, chunk.holes, chunk.end)
        return chunk

    def _take_from(self, chunk: Chunk, count: int) -> list[AnyRecord]:
        if chunk.empty and chunk.error is not None:
            self._positions.advance(chunk.where, chunk.version, chunk.end)
            if isinstance(chunk.error, RecordDeserializationError):
                self._refuse(chunk.where, chunk.error.offset)
            raise chunk.error
        taken, behind = chunk.take(count)
        if not chunk.empty or chunk.error is not None:
            self._fetcher.arrived.appendleft(chunk)
            if taken:
                behind = Position(taken[-1].offset + 1, taken[-1].leader_epoch)
        if taken:
            self._first_taken.setdefault(chunk.where, Position(taken[0].offset))
        self._positions.advance(chunk.where, chunk.version, behind)
        return taken

    def _refuse(self, where: TopicPartition, offset: int) -> None:
        """The application is told of a record that a deserializer refuses. In turns no seek can go
        past it, so it counts as given."""
        self._refused[where] = offset
        if self._positions.turn(where):
            self._covered.read_turn(where, ((offset, offset),), ())

    # --- how far the application is ---------------------------------------------------------------

    def asked(self) -> None:
        """The application asks for more: it is done with the records that it had."""
        self._one_in_work = None
        if self._in_work:
            self._in_work = {}

    def gave_taken(self) -> None:
        """The application has all records that the last :meth:`take` took."""
        self._in_work, self._first_taken = self._first_taken, {}

    def gave(self, records: Iterable[AnyRecord]) -> None:
        """The application has these records now, in this order."""
        self._in_work = _firsts(records)

    def gave_one(self, record: AnyRecord) -> None:
        """A loop has given out this record; the application is done with the ones before."""
        self._one_in_work = record

    def lags(self) -> dict[TopicPartition, int | None]:
        """How many offsets each partition's position is from its end; None: not known."""
        found: dict[TopicPartition, int | None] = dict.fromkeys(self._positions.assigned)
        for where, position in self.returned().items():
            end = self._positions.end(where)
            found[where] = None if end is None else max(0, end - position.offset)
        return found

    def returned(self) -> dict[TopicPartition, Position]:
        """The positions after all records that the application has been given."""
        return self._before(self.coming)

    def done(self) -> dict[TopicPartition, Position]:
        """The positions after all records that the application is done with."""
        found = self._before(self.coming)
        work = self._in_work
        if self._one_in_work is not None:
            work = work | _firsts([self._one_in_work])
        return found | {where: at for where, at in work.items() if where in found}

    def committed(self, positions: Mapping[TopicPartition, Position]) -> None:
        """The application has committed up to these positions: it is done with its records in work
        that lie before them. A later automatic commit must not lie before these positions.

        In turns a record in work may lie before them though it came after the commit began. There
        the records stay in work, and the next commit leaves out what is committed
        (:class:`Covered`): all are of the turn that was read last.
        """
        work = self._in_work
        if self._one_in_work is not None:
            work = work | _firsts([self._one_in_work])
        ahead = {
            where: positions[where]
            for where, at in work.items()
            if where in positions and at < positions[where] and not self._positions.turn(where)
        }
        if ahead:
            self._in_work, self._one_in_work = work | ahead, None

    def _before(self, records: Iterable[AnyRecord]) -> dict[TopicPartition, Position]:
        found = self._positions.known()
        return found | {where: at for where, at in _firsts(records).items() if where in found}

    def forget(self, wheres: Iterable[TopicPartition]) -> None:
        """Drop everything of these partitions: they are given up, or their topics are gone."""
        gone = set(wheres)
        self._covered.forget(gone)
        self._refused = {w: at for w, at in self._refused.items() if w not in gone}
        self._drop_work(gone)
        self._drop_coming(gone)

    def jump(self, wheres: Iterable[TopicPartition], target: int | None = None) -> None:
        """The application seeks: what it has not been given of these partitions is dropped.

        In a shared partition a commit covers what was read, not what lies before the position. So
        what the application has been given there is kept for the next commit, unless it comes
        again; what is in work, too, once the application asks for more. A refused record counts as
        done when it is passed over: nobody would ever read it.

        Args:
            target: the offset to go on at; None: it is looked up.
        """
        going, given = set(wheres), self.returned()
        for where in going:
            if where in given:
                self._covered.cut(where, given[where].offset)
            refused = self._refused.get(where)
            if refused is not None and (target is None or refused < target):
                self._covered.read(where, [(refused, refused)], ())
                del self._refused[where]
            if target is not None:
                self._covered.go_on(where, target)
        self._drop_work({where for where in going if where not in self._covered})
        self._drop_coming(going)

    def _drop_work(self, gone: Collection[TopicPartition]) -> None:
        self._in_work = {w: at for w, at in self._in_work.items() if w not in gone}
        if self._one_in_work is not None and self._one_in_work.topic_partition in gone:
            self._one_in_work = None

    def _drop_coming(self, gone: Collection[TopicPartition]) -> None:
        if any(record.topic_partition in gone for record in self.coming):
            self.coming = deque(one for one in self.coming if one.topic_partition not in gone)


def _firsts(records: Iterable[AnyRecord]) -> dict[TopicPartition, Position]:
    """The position of each partition's first record."""
    firsts: dict[TopicPartition, Position] = {}
    for record in records:
        firsts.setdefault(record.topic_partition, Position(record.offset))
    return firsts
