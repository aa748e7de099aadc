"""A share partition whose records come by class, with its log as text: a letter for each record."""

from __future__ import annotations

from collections.abc import Callable

from sharegroup.share.archived import Archived
from sharegroup.share.order.order import Order
from sharegroup.share.record_state import AckType
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.window import Window
from tests.share.keyed import keyed_partition


class ClassedQueue:
    """See the module.

    Args:
        class_of: the class of a record with this letter.
    """

    def __init__(
        self,
        order: Callable[[Window, Archived], Order],
        class_of: Callable[[str], int],
        settings: DeliverySettings,
        *log: str,
    ) -> None:
        self.partition = keyed_partition(order=order)
        self.class_of = class_of
        self.settings = settings
        self.log = ""
        for part in log:
            self.add(part)

    def add(self, letters: str) -> None:
        """Append to the log, and load it at once."""
        first = len(self.log)
        self.log += letters
        offsets = range(first, len(self.log))
        self.partition.order.load(offsets, [*map(self.class_of, letters)], len(self.log))

    def fetch(self, most: int, read: int | None = None, begin: int | None = None) -> list[int]:
        """The offsets that a member gets from a read of ``read`` offsets, from the next record or
        from ``begin`` on; by default of all."""
        if begin is None:
            begin = 0 if read is None else self.partition.next_fetch_offset("m")
        end = len(self.log) if read is None else min(len(self.log), begin + read)
        if begin >= end:
            return []
        acquisition = self.partition.acquire(
            "m", [(begin, end - 1)], fetch_offset=begin, records_max=most, batch_size=500,
            strict=True, now_ms=0, settings=self.settings,
        )  # fmt: skip
        self.partition.check_invariants()
        return [at for first, last, _ in acquisition.ranges for at in range(first, last + 1)]

    def letters(self, most: int, read: int | None = None) -> str:
        """The letters of the records that a member gets."""
        return "".join(self.log[at] for at in self.fetch(most, read))

    def say(self, kind: AckType, *offsets: int) -> None:
        acks = [(at, at, [kind]) for at in offsets]
        self.partition.acknowledge("m", acks, now_ms=0, settings=self.settings)
        self.partition.check_invariants()
