"""Consumer groups as a machine of the runtime: wraps the core's membership machine and encodes its
records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sharegroup.broker.coordination.log import KeyValue
from sharegroup.groups.consumer.membership import ConsumerGroups
from sharegroup.groups.consumer.records import ConsumerRecord
from sharegroup.groups.topics import TopicsImage
from sharegroup.wire.internal.consumer_groups import KEY_PREFIXES, decode_record, encode_record

RECORDS_PER_GROUP: Final = 2
RECORDS_PER_MEMBER: Final = 3


class ConsumerGroupsMachine:
    """Implements ``machine.Machine``. ``on_expired`` is called with the records written when
    members are removed because they have said nothing for too long.
    """

    def __init__(
        self,
        groups: ConsumerGroups,
        image: Callable[[], TopicsImage],
        on_expired: Callable[[Sequence[ConsumerRecord]], None],
    ) -> None:
        self.groups = groups
        self._image = image
        self._on_expired = on_expired

    def replay(self, offset: int, key: bytes, value: bytes | None) -> bool:
        """Apply a record of a consumer group; False for other types of group."""
        if key[:2] not in KEY_PREFIXES:
            return False
        record = decode_record(key, value)
        if record is not None:
            self.groups.replay(record)
        return True

    def replayed(self, now_ms: int) -> None:
        """Restart the timeouts of every member."""
        self.groups.sessions_restarted(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When the next session or rebalance timeout ends."""
        return self.groups.next_deadline_ms()

    def tick(self, now_ms: int) -> Sequence[ConsumerRecord]:
        """Remove members whose time is up."""
        records = self.groups.tick(self._image(), now_ms)
        self._on_expired(records)
        return records

    def encode(self, record: ConsumerRecord) -> KeyValue:
        """The bytes of a record."""
        return encode_record(record)

    def durable(self, records: Sequence[ConsumerRecord], first_offset: int) -> None:
        """Nothing: groups do not depend on where their records are."""

    def lowest_needed(self, end_offset: int) -> int | None:
        """None: the offset is unknown without a rewrite."""
        return None

    def size(self) -> int:
        """The approximate number of records that :meth:`live_records` yields."""
        sizes = self.groups.sizes()
        return sum(RECORDS_PER_GROUP + RECORDS_PER_MEMBER * members for _, members in sizes)

    def live_records(self) -> Iterator[Sequence[ConsumerRecord]]:
        """All records of each group."""
        for group_id in self.groups.group_ids():
            yield tuple(self.groups.records(group_id))

    def check_invariants(self) -> None:
        """Raise AssertionError if a group's state is inconsistent."""
        self.groups.check_invariants()
