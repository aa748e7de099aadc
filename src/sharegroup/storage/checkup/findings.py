"""The findings of a check, one sentence each, for people and for scripts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad a finding is. Only WARNING and ERROR need a repair."""

    INFO = "info"
    """Normal after a crash, or a leftover: ``serve`` handles it."""
    KNOWN = "known"
    """Lost for good, found earlier and quarantined: reads skip it."""
    WARNING = "warning"
    """Wrong, but no record is lost."""
    ERROR = "error"
    """Records or delivery state are lost, or will be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """How many records of a damaged range one share group has finished, or still needs."""

    group: str
    passed: int
    """Finished: the group no longer needs them."""
    in_flight: int
    """Delivered, but not finished."""
    not_delivered: int

    def __str__(self) -> str:
        return (
            f"{self.group}: {self.passed} already passed, {self.in_flight} in flight, "
            f"{self.not_delivered} not yet delivered"
        )


@dataclass(slots=True, kw_only=True)
class Finding:
    """One problem."""

    severity: Severity
    kind: str
    """An identifier for scripts, such as ``damaged-batches``."""
    place: str
    """File or folder, relative to the data folder; or another place, such as a group."""
    message: str
    """What is wrong, without the place."""
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    groups: list[Affected] = field(default_factory=list)
    action: str | None = None
    """How to repair it; None if nothing needs to be done."""
    repaired: str | None = None
    """What a repair has done; None if it was not repaired."""

    @property
    def open(self) -> bool:
        """Whether the problem still needs a repair."""
        return self.repaired is None and self.severity in (Severity.WARNING, Severity.ERROR)

    @property
    def records(self) -> int:
        """How many offsets are affected."""
        if self.first_offset is None or self.last_offset is None:
            return 0
        return self.last_offset - self.first_offset + 1

    def as_json(self) -> dict[str, Any]:
        """The finding as JSON values, for scripts; docs/cli.md describes the fields."""
        return {
            "severity": str(self.severity),
            "kind": self.kind,
            "place": self.place,
            "message": self.message,
            "topic": self.topic,
            "partition": self.partition,
            "first_offset": self.first_offset,
            "last_offset": self.last_offset,
            "records": self.records,
            "groups": [
                {
                    "group": each.group,
                    "passed": each.passed,
                    "in_flight": each.in_flight,
                    "not_delivered": each.not_delivered,
                }
                for each in self.groups
            ],
            "action": self.action,
            "repaired": self.repaired,
        }
