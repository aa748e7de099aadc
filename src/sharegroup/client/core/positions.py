"""Where a consumer reads: one position for each of its partitions (Kafka class SubscriptionState).

::

    COMMITTED ─offset found──▶ FETCHING ◀──found── RESET ◀── nothing committed, out of range, seek
        (look up what the        │  ▲
         group has committed)    └──┴─ CHECK: the leader's epoch changed (KIP-320)

A position is the offset of the record that is returned next. Partitions may be paused. Nothing is
fetched from a partition before the application has been told that it is assigned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from sharegroup.client.core.key_ranges import KeyRanges
from sharegroup.cooperative.intervals import Intervals
from sharegroup.model.ids import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
NO_EPOCH: Final = -1
FIRST_TURN: Final = 1
"""Asking for this turn gives back the records of earlier turns that are not committed."""


class Position(NamedTuple):
    """A place in a partition's log."""

    offset: int
    leader_epoch: int = NO_EPOCH
    """The epoch of the record before the position; -1: not known."""


class PositionStep(Enum):
    """What a partition waits for; see the module."""

    COMMITTED = "committed"
    RESET = "reset"
    CHECK = "check"
    FETCHING = "fetching"


class PartitionPlace:
    """One partition.

    Attributes:
        position: None until it is known.
        step: what comes next.
        reset: with RESET, the timestamp to ask for: EARLIEST, LATEST, or milliseconds since 1970.
        end: the end of the log, as the last fetch saw it; None: not known yet.
        version: changes whenever the position jumps. What was fetched for another version is old.
        checked_epoch: the leader epoch under which the position is known to be in the log.
        key_ranges: only records of these are read; empty: all.
        turn: the number of the turn that is asked for next; 0: it is not read in turns.
        shared: other members may commit offsets after its committed offset (KIP-X).
        begins: the group has committed nothing: the offset where it begins is looked up, and
            committed.
        lost_from: of a shared partition, the position that is not in its log any more; None: no
            position was lost.
        done: the offsets after its committed offset that any member is done with.
        topic_id: the topic that the position belongs to; None: not known.
        from_group: without a position, it begins at the group's committed offset, if there is one.
        is_new: its topic was made anew while it was read.
    """

    __slots__ = (
        "begins",
        "checked_epoch",
        "done",
        "end",
        "from_group",
        "is_new",
        "key_ranges",
        "lost_from",
        "paused",
        "position",
        "reset",
        "shared",
        "step",
        "topic_id",
        "turn",
        "version",
    )

    def __init__(self, step: PositionStep, reset: int, *, from_group: bool) -> None:
        self.from_group = from_group
        self.topic_id: UUID | None = None
        self.is_new = False
        self.position: Position | None = None
        self.step = step
        self.reset = reset
        self.end: int | None = None
        self.paused = False
        self.version = 0
        self.checked_epoch = NO_EPOCH
        self.key_ranges: KeyRanges = ()
        self.turn = 0
        self.shared = False
        self.done: Intervals = ()
        self.begins = False
        self.lost_from: int | None = None


class Positions:
    """See the module.

    Args:
        reset: where a partition without a position begins: EARLIEST, LATEST or a timestamp; None:
            such a partition is an error.
    """

    def __init__(self, reset: int | None) -> None:
        self._reset = reset
        self._places: dict[TopicPartition, PartitionPlace] = {}
        self._version = 0
        self._former: set[UUID] = set()
        """Topics that were made anew while they were read."""
        self._given_up: dict[TopicPartition, UUID] = {}
        """The topics of partitions that are not ours any more."""

    def __contains__(self, where: object) -> bool:
        return where in self._places

    def __len__(self) -> int:
        return len(self._places)

    @property
    def assigned(self) -> frozenset[TopicPartition]:
        """All partitions."""
        return frozenset(self._places)

    @property
    def newest_version(self) -> int:
        """It rises with each partition that is added, and with each position that jumps."""
        return self._version

    @property
    def paused(self) -> frozenset[TopicPartition]:
        """The paused partitions."""
        return frozenset(where for where, place in self._places.items() if place.paused)

    # --- the assignment ---------------------------------------------------------------------------

    def add(self, wheres: Iterable[TopicPartition], *, from_group: bool) -> None:
        """New partitions. ``from_group``: they begin at the group's committed offset, if there is
        one."""
        for where in wheres:
            if where not in self._places:
                place = PartitionPlace(
                    PositionStep.COMMITTED,
                    EARLIEST if self._reset is None else self._reset,
                    from_group=from_group,
                )
                place.version = self._next_version()
                self._places[where] = place
                if not from_group:
                    self.uncommitted([where])

    def saw_topic(self, where: TopicPartition, topic_id: UUID) -> bool:
        """The partition's topic has this id, as some broker says. Returns whether the topic was
        made anew: the position belongs to a topic that is gone."""
        place = self._places[where]
        if place.topic_id is None:
            place.topic_id = topic_id
            before = self._given_up.pop(where, topic_id)
            if before != topic_id:
                self._former.add(before)
                place.is_new = True
        return place.topic_id != topic_id and topic_id not in self._former

    def was_before(self, topic_id: UUID) -> bool:
        """Whether this is the id of a topic that was made anew since. A broker may not know that
        yet."""
        return topic_id in self._former

    def topic_id(self, where: TopicPartition) -> UUID | None:
        """See :attr:`PartitionPlace.topic_id`; None as well if the partition is not ours."""
        place = self._places.get(where)
        return None if place is None else place.topic_id

    def begin_anew(self, where: TopicPartition, topic_id: UUID) -> None:
        """Begin with a partition of the topic with this id. If the group has committed nothing
        there, LATEST means its first record: the whole topic is newer than the subscription."""
        place = self._places[where]
        if place.topic_id is not None:
            self._former.add(place.topic_id)
        place.is_new = True
        place.topic_id, place.position, place.end = topic_id, None, None
        place.step, place.done, place.begins, place.lost_from = (
            PositionStep.COMMITTED,
            (),
            False,
            None,
        )
        place.checked_epoch = NO_EPOCH
        place.turn = FIRST_TURN if place.turn else 0
        place.version = self._next_version()
        if not place.from_group:
            self.uncommitted([where])

    def share(self, wheres: Iterable[TopicPartition]) -> None:
        """Other members may read other key ranges of these partitions, and commit them."""
        for where in wheres:
            self._places[where].shared = True

    def is_shared(self, where: TopicPartition) -> bool:
        """See :attr:`PartitionPlace.shared`."""
        place = self._places.get(where)
        return place is not None and place.shared

    def remove(self, wheres: Iterable[TopicPartition]) -> None:
        """These partitions are not ours any more."""
        for where in wheres:
            place = self._places.pop(where, None)
            if place is not None and place.topic_id is not None:
                self._given_up[where] = place.topic_id

    # --- the application's calls ------------------------------------------------------------------

    def position(self, where: TopicPartition) -> Position | None:
        """Where the next record of a partition comes from; None: not known yet."""
        return self._places[where].position

    def seek(self, where: TopicPartition, position: Position, *, forward: bool = False) -> None:
        """Go on at this position.

        Args:
            forward: the application has had nothing that lies behind it. So what is committed there
                is left out as before; on a way back all records come again.
        """
        place = self._places[where]
        place.position = position
        place.step = (
            PositionStep.FETCHING if position.leader_epoch == NO_EPOCH else PositionStep.CHECK
        )
        place.begins = False
        if not forward:
            place.done = ()
        place.checked_epoch = NO_EPOCH
        place.version = self._next_version()

    def seek_to(self, where: TopicPartition, timestamp: int) -> None:
        """Go on at the beginning, at the end, or at a time."""
        place = self._places[where]
        place.position = None
        place.step, place.reset = PositionStep.RESET, timestamp
        place.begins, place.done = False, ()
        place.version = self._next_version()

    def pause(self, wheres: Iterable[TopicPartition], paused: bool) -> None:
        """Return no records of these partitions; or, not ``paused``, return them again."""
        for where in wheres:
            self._places[where].paused = paused

    def read_ranges(self, where: TopicPartition, key_ranges: KeyRanges) -> None:
        """Read only records of these ranges from now on. What was fetched before is dropped."""
        place = self._places[where]
        if place.key_ranges != key_ranges:
            place.key_ranges = key_ranges
            place.version = self._next_version()

    def read_in_turns(self, wheres: Iterable[TopicPartition]) -> None:
        """Read these partitions in turns: only records that no other member of the group has."""
        for where in wheres:
            self._places[where].turn = FIRST_TURN

    def turn(self, where: TopicPartition) -> int:
        """See :attr:`PartitionPlace.turn`."""
        place = self._places.get(where)
        return 0 if place is None else place.turn

    def next_turn(self, where: TopicPartition, version: int) -> None:
        """The answer to the turn that was asked for has arrived, with records: ask for the next."""
        place = self._places.get(where)
        if place is not None and place.version == version:
            place.turn += 1

    def begin_turns_anew(self, where: TopicPartition) -> None:
        """Ask for the first turn again: the broker does not know the current one, or is to take
        back its records."""
        self._places[where].turn = FIRST_TURN

    def key_ranges(self, where: TopicPartition) -> KeyRanges:
        """See :attr:`PartitionPlace.key_ranges`."""
        return self._places[where].key_ranges

    # --- looking positions up ---------------------------------------------------------------------

    def waiting(self, step: PositionStep) -> dict[TopicPartition, int]:
        """The partitions that wait for this step, and the version of each."""
        return {w: place.version for w, place in self._places.items() if place.step is step}

    def reset_of(self, where: TopicPartition) -> int:
        """The timestamp that a partition in RESET waits for."""
        return self._places[where].reset

    def found(
        self, where: TopicPartition, version: int, position: Position, done: Intervals = ()
    ) -> None:
        """The partition goes on at this position, unless it has jumped since ``version``.

        Args:
            done: the offsets after the position that are committed.
        """
        place = self._places.get(where)
        if (
            place is not None
            and place.version == version
            and place.step is not PositionStep.FETCHING
        ):
            place.position, place.done = position, done
            place.step = PositionStep.FETCHING
            place.version = self._next_version()

    def begins(self, where: TopicPartition) -> bool:
        """See :attr:`PartitionPlace.begins`: the position that is found is where the group begins.
        It is committed, and looked up again, because another member may have committed first."""
        return self._places[where].begins

    def look_up_committed(self, where: TopicPartition, version: int) -> None:
        """The offset where the group begins is committed now: look it up."""
        place = self._places.get(where)
        if place is not None and place.version == version and place.step is PositionStep.RESET:
            place.step, place.begins = PositionStep.COMMITTED, False

    def done(self, where: TopicPartition) -> Intervals:
        """See :attr:`PartitionPlace.done`."""
        return self._places[where].done

    def checked(self, where: TopicPartition, version: int, leader_epoch: int) -> None:
        """The position is in the log of this leader."""
        place = self._places.get(where)
        if place is not None and place.version == version and place.step is PositionStep.CHECK:
            place.step, place.checked_epoch = PositionStep.FETCHING, leader_epoch

    def uncommitted(self, wheres: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The group has committed nothing for these partitions. Returns the partitions that cannot
        go on, because there is no reset policy.
        """
        stuck = []
        for where in wheres:
            place = self._places.get(where)
            if place is None or place.step is not PositionStep.COMMITTED:
                continue
            if self._reset is None:
                stuck.append(where)
            else:
                place.step = PositionStep.RESET
                place.reset = EARLIEST if place.is_new and self._reset == LATEST else self._reset
                place.begins = place.shared
        return stuck

    def out_of_range(self, where: TopicPartition, version: int) -> bool:
        """The position's offset is not in the log any more. Returns False if the partition cannot
        go on, because there is no reset policy."""
        place = self._places.get(where)
        if place is None or place.version != version:
            return True
        if self._reset is None:
            return False
        lost, done = place.position, place.done
        self.seek_to(where, self._reset)
        if place.shared and lost is not None:
            place.lost_from, place.done = lost.offset, done
        return True

    def take_lost(self, where: TopicPartition) -> int | None:
        """See :attr:`PartitionPlace.lost_from`; a lost position is returned once."""
        place = self._places.get(where)
        if place is None:
            return None
        lost, place.lost_from = place.lost_from, None
        return lost

    def saw_leader(self, where: TopicPartition, leader_epoch: int) -> None:
        """The partition's leader has this epoch. A position from an older epoch is checked."""
        place = self._places.get(where)
        if place is None or place.step is not PositionStep.FETCHING or place.position is None:
            return
        older = NO_EPOCH < place.position.leader_epoch < leader_epoch
        if older and place.checked_epoch < leader_epoch:
            place.step = PositionStep.CHECK

    # --- fetching ---------------------------------------------------------------------------------

    def fetchable(self, buffered: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The partitions to fetch from now, in turn, and the version of each: neither paused nor
        in ``buffered``.
        """
        without = set(buffered)
        return {
            where: place.version
            for where, place in self._places.items()
            if place.step is PositionStep.FETCHING and not place.paused and where not in without
        }

    def is_current(self, where: TopicPartition, version: int) -> bool:
        """Records that were fetched for ``version`` may be returned."""
        place = self._places.get(where)
        return place is not None and place.version == version

    def is_paused(self, where: TopicPartition) -> bool:
        """The partition is paused."""
        return self._places[where].paused

    def saw_end(self, where: TopicPartition, end: int) -> None:
        """The last offset that may be read is the one before ``end``."""
        place = self._places.get(where)
        if place is not None:
            place.end = end

    def end(self, where: TopicPartition) -> int | None:
        """See :attr:`PartitionPlace.end`."""
        return self._places[where].end

    def advance(self, where: TopicPartition, version: int, position: Position) -> None:
        """Records up to this position have been returned. The partition goes to the end of the
        line, so that each gets its turn.
        """
        place = self._places.get(where)
        if place is not None and place.version == version:
            place.position = position
            self._places[where] = self._places.pop(where)

    def _next_version(self) -> int:
        self._version += 1
        return self._version

    # --- committing -------------------------------------------------------------------------------

    def known(self) -> dict[TopicPartition, Position]:
        """All positions that are known."""
        return {w: p.position for w, p in self._places.items() if p.position is not None}

    def check_invariants(self) -> None:
        """Raises AssertionError: the state contradicts itself."""
        for where, place in self._places.items():
            known = place.position is not None
            if place.step in (PositionStep.FETCHING, PositionStep.CHECK):
                assert known, f"{where} is read without a position"
            else:
                assert not known, f"{where} has a position and waits for one"
        versions = [place.version for place in self._places.values()]
        assert len(set(versions)) == len(versions), "two partitions have one version"


class CommittedPositions:
    """The positions committed last, so that automatic commits repeat none of them."""

    def __init__(self) -> None:
        self._committed: dict[TopicPartition, Position] = {}

    def missing(self, done: Mapping[TopicPartition, Position]) -> dict[TopicPartition, Position]:
        """The positions of ``done`` that are not committed."""
        return {w: at for w, at in done.items() if self._committed.get(w) != at}

    def note(self, positions: Mapping[TopicPartition, Position]) -> None:
        """These positions are committed."""
        self._committed.update(positions)

    def remove(self, wheres: Iterable[TopicPartition]) -> None:
        """These partitions are not ours any more: other members may commit them."""
        for where in wheres:
            self._committed.pop(where, None)
