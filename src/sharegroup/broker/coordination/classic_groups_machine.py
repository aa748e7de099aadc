"""Classic groups as a machine of the runtime: wraps the core's machine and encodes its records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from sharegroup.broker.coordination.cleaning import Rounds, Unused
from sharegroup.broker.coordination.log import KeyValue
from sharegroup.groups.classic.group import Group
from sharegroup.groups.classic.groups import ClassicGroups
from sharegroup.groups.classic.records import ClassicRecord
from sharegroup.groups.classic.requests import ClassicAnswer, Effects, Now
from sharegroup.model.environment import Clock
from sharegroup.wire.internal.classic_groups import KEY_PREFIX, decode_record, encode_record

Deliver: TypeAlias = Callable[[Sequence[ClassicAnswer]], None]
"""Sends answers to the clients that wait for them."""


class ClassicGroupsMachine:
    """Implements ``machine.Machine``. ``completed`` is called with the number of generations whose
    assignments are handed out.
    """

    def __init__(
        self,
        groups: ClassicGroups,
        clock: Clock,
        deliver: Deliver,
        completed: Callable[[int], None],
        unused: Unused,
    ) -> None:
        self.groups = groups
        self._clock = clock
        self._deliver = deliver
        self._completed = completed
        self._unused = unused
        self._rounds = Rounds(unused.interval_ms)

    def now(self) -> Now:
        """The time, as the core wants it."""
        return Now(self._clock.monotonic_ms(), self._clock.wall_ms())

    def done(self, effects: Effects) -> Sequence[ClassicRecord]:
        """Deliver the answers; returns the records to write."""
        if effects.answers:
            self._deliver(effects.answers)
        return effects.records

    # Groups that change their protocol: implements ``consumer.migration.ClassicSide`` ------------

    def group(self, group_id: str) -> Group | None:
        """A group, to be read only."""
        return self.groups.group(group_id)

    def release(self, group_id: str) -> Sequence[ClassicRecord]:
        """As ``ClassicGroups.release``."""
        return self.done(self.groups.release(group_id))

    def keep(self, group_id: str) -> None:
        """As ``ClassicGroups.keep``."""
        self.done(self.groups.keep(group_id, self.now()))

    def adopt(self, group: Group, *, rebalance: bool) -> Sequence[ClassicRecord]:
        """As ``ClassicGroups.adopt``."""
        return self.done(self.groups.adopt(group, self.now(), rebalance=rebalance))

    # ---------------------------------------------------------------------------------------------

    def replay(self, offset: int, key: bytes, value: bytes | None) -> bool:
        """Apply a record of a classic group; False for other types of group."""
        if key[:2] != KEY_PREFIX:
            return False
        self.groups.replay(decode_record(key, value))
        return True

    def replayed(self, now_ms: int) -> None:
        """Restart the session timeout of every member."""
        self._rounds.done(now_ms)
        self.done(self.groups.replayed(Now(now_ms, self._clock.wall_ms())))

    def next_deadline_ms(self) -> int | None:
        """When the next session ends, the next phase of a rebalance ends, or the next search for
        unused groups is due."""
        due_ms = self.groups.next_deadline_ms()
        check_ms = self._rounds.next_ms if len(self.groups) else None
        return min((at for at in (due_ms, check_ms) if at is not None), default=None)

    def tick(self, now_ms: int) -> Sequence[ClassicRecord]:
        """Remove silent members, go on with rebalances, delete unused groups."""
        records = list(self.done(self.groups.tick(Now(now_ms, self._clock.wall_ms()))))
        if self._rounds.are_due(now_ms):
            self._rounds.done(now_ms)
            records += self.done(self.groups.delete_unused(self._unused.has_offsets))
        return records

    def encode(self, record: ClassicRecord) -> KeyValue:
        """The bytes of a record."""
        return encode_record(record)

    def durable(self, records: Sequence[ClassicRecord], first_offset: int) -> None:
        """Answer the requests that waited for these records."""
        before = self.groups.completed
        self.done(self.groups.durable(records, self.now()))
        self._completed(self.groups.completed - before)

    def lowest_needed(self, end_offset: int) -> int | None:
        """None: the offset is unknown without a rewrite."""
        return None if len(self.groups) else end_offset

    def size(self) -> int:
        """The number of records that :meth:`live_records` yields."""
        return len(self.groups)

    def live_records(self) -> Iterator[Sequence[ClassicRecord]]:
        """The last record of each group. Anything later, such as an unfinished rebalance, has no
        record yet."""
        for group_id in self.groups.group_ids():
            record = self.groups.record(group_id)
            if record is not None:
                yield (record,)

    def check_invariants(self) -> None:
        """Raise AssertionError if a group's state is inconsistent."""
        self.groups.check_invariants()
