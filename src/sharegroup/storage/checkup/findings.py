"""What a check has found, one sentence each, for people and for scripts."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How bad it is. WARNING and ERROR count until they are repaired; the other two never do."""

    INFO = "info"
    """As it should be after a crash, or left over: ``serve`` deals with it."""
    KNOWN = "known"
    """Lost for good, found before and in quarantine: reads pass over it."""
    WARNING = "warning"
    """Wrong, but no record is lost."""
    ERROR = "error"
    """Records or delivery state are lost, or will be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Affected:
    """What a damaged range is to one share group, in records."""

    group: str
    passed: int
    """Finished before: the group needs them no more."""
    in_flight: int
    """Delivered, not finished."""
    not_delivered: int

    def __str__(self) -> str:
        return (
            f"{self.group}: {self.passed} already passed, {self.in_flight} in flight, "
            f"{self.not_delivered} not yet delivered"
        )


@dataclass(slots=True, kw_only=True)
class Finding:
    """One thing that is not as it should be."""

    severity: Severity
    kind: str
    """A word for scripts, such as ``damaged-batches``."""
    place: str
    """File or folder, from the data folder on; or what else it is of."""
    message: str
    """What is wrong, without the place."""
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    groups: list[Affected] = field(default_factory=list)
    action: str | None = None
    """What heals it; None where nothing needs to be done."""
    repaired: str | None = None
    """What a repair has done about it."""

    @property
    def open(self) -> bool:
        """Whether something is left to do."""
        return self.repaired is None and self.severity in (Severity.WARNING, Severity.ERROR)

    @property
    def records(self) -> int:
        """How many offsets are affected."""
        if self.first_offset is None or self.last_offset is None:
            return 0
        return self.last_offset - self.first_offset + 1

    def as_json(self) -> dict[str, Any]:
        """For scripts; the shape is described in docs/cli.md."""
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
