"""What a member asks for when it acquires records, and what it gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from sharegroup.share.ranges import AcquiredRange
from sharegroup.share.tenant_rates import TenantRates


class Acquisition(NamedTuple):
    """Records given to a member: sorted, disjoint ranges. An acquisition need not be durable."""

    ranges: tuple[AcquiredRange, ...] = ()

    @property
    def records(self) -> int:
        """How many offsets were acquired."""
        return sum(last - first + 1 for first, last, _ in self.ranges)


NOTHING = Acquisition()


@dataclass(slots=True)
class Request:
    """What a member asks for, and when its acquisition lock expires."""

    member_id: str
    records_max: int
    batch_size: int
    strict: bool
    """record_limit: never more than ``records_max`` records, no cuts by ``batch_size``."""
    deadline_ms: int
    now_ms: int
    tenant_rates: TenantRates | None = None
    """How many records of each tenant may go out (``share.fairness.rate.…``); None: any number."""
