"""Consumer groups as a machine of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sharegroup.broker.coordination.cleaning import Rounds, Unused
from sharegroup.broker.coordination.log import KeyValue
from sharegroup.broker.coordination.membership_machine import Codec, MembershipMachine
from sharegroup.groups.classic.records import ClassicGroupRecord, ClassicTombstone
from sharegroup.groups.consumer.groups import ConsumerGroups
from sharegroup.groups.consumer.records import WrittenRecord
from sharegroup.groups.topics import TopicsImage
from sharegroup.wire.internal import classic_groups
from sharegroup.wire.internal.consumer_groups import KEY_PREFIXES, decode_record, encode_record


def _encode(record: WrittenRecord) -> KeyValue:
    """The bytes of a record of either type: a group that changes its protocol writes both."""
    if isinstance(record, ClassicGroupRecord | ClassicTombstone):
        return classic_groups.encode_record(record)
    return encode_record(record)


class ConsumerGroupsMachine(MembershipMachine[WrittenRecord]):
    """Implements ``machine.Machine``."""

    def __init__(
        self,
        groups: ConsumerGroups,
        image: Callable[[], TopicsImage],
        on_expired: Callable[[Sequence[WrittenRecord]], None],
        unused: Unused,
    ) -> None:
        super().__init__(groups, Codec(KEY_PREFIXES, decode_record, _encode), image, on_expired)
        self.groups = groups
        self._unused = unused
        self._rounds = Rounds(unused.interval_ms)

    def replayed(self, now_ms: int) -> None:
        """Restart the timeouts of every member; look for unused groups an interval later."""
        super().replayed(now_ms)
        self._rounds.done(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When the next member's time is up, or the next search for unused groups is due."""
        due_ms, round_ms = super().next_deadline_ms(), self._rounds.next_ms
        if not len(self.groups.table) or round_ms is None:
            return due_ms
        return round_ms if due_ms is None else min(due_ms, round_ms)

    def tick(self, now_ms: int) -> Sequence[WrittenRecord]:
        """Remove members whose time is up, delete unused groups."""
        records = super().tick(now_ms)
        if not self._rounds.are_due(now_ms):
            return records
        self._rounds.done(now_ms)
        return (*records, *self.groups.delete_unused(self._unused.has_offsets))
