"""A share partition, and what a leader does around it, in few words."""

from __future__ import annotations

from dataclasses import replace

from sharegroup.model.share_state import StateBatch
from sharegroup.share.acknowledge import AckBatch
from sharegroup.share.partition import SharePartition
from sharegroup.share.ranges import AcquiredRange
from sharegroup.share.record_state import AckType
from sharegroup.share.settings import DeliverySettings
from sharegroup.share.state_changes import StateChange

SETTINGS = DeliverySettings(lock_ms=100, delivery_count_limit=5, record_locks_max=2_000)
ACCEPT, RELEASE, REJECT = [AckType.ACCEPT], [AckType.RELEASE], [AckType.REJECT]


class Leader:
    """A share partition, and what a leader does around it with fixed times and settings."""

    def __init__(self, start_offset: int = 0, batches: tuple[StateBatch, ...] = ()) -> None:
        self.settings = SETTINGS
        self.now_ms = 0
        self.partition = SharePartition(
            start_offset=start_offset, state_epoch=3, leader_epoch=4, batches=batches
        )

    def acquire(
        self,
        *batches: tuple[int, int],
        member: str = "m",
        records_max: int = 500,
        batch_size: int = 500,
        strict: bool = False,
        aborted: tuple[tuple[int, int], ...] = (),
        fetch_offset: int | None = None,
    ) -> list[AcquiredRange]:
        acquisition = self.partition.acquire(
            member,
            batches,
            fetch_offset=self.partition.next_fetch_offset()
            if fetch_offset is None
            else fetch_offset,
            records_max=records_max,
            batch_size=batch_size,
            strict=strict,
            aborted=aborted,
            now_ms=self.now_ms,
            settings=self.settings,
        )
        self.partition.check_invariants()
        return list(acquisition.ranges)

    def acknowledge(
        self, *batches: AckBatch, member: str = "m", renew_allowed: bool = True
    ) -> StateChange | None:
        change = self.partition.acknowledge(
            member,
            batches,
            now_ms=self.now_ms,
            settings=self.settings,
            renew_allowed=renew_allowed,
        )
        self.partition.check_invariants()
        return change

    def tick(self, now_ms: int) -> StateChange | None:
        self.now_ms = now_ms
        change = self.partition.tick(now_ms, self.settings)
        self.partition.check_invariants()
        return change

    def deliver(self, times: int, *batches: tuple[int, int]) -> None:
        """Acquire everything and release it, ``times`` times, without throttling."""
        before, self.settings = self.settings, replace(self.settings, delivery_count_limit=1_000)
        for _ in range(times):
            for first, last, _ in self.acquire(*batches):
                self.acknowledge((first, last, RELEASE))
        self.settings = before

    def shape(self) -> list[tuple[int, int, str, int]]:
        return [
            (s.first, s.last, s.state.name.lower(), s.delivery_count)
            for s in self.partition.spans()
        ]
