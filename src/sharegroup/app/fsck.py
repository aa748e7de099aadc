"""``sharegroup fsck``: check a data folder that no broker has open, and repair it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from sharegroup.broker.checkup.affected import add_affected_groups, add_security_advice
from sharegroup.broker.checkup.durable_state import DurableStateCheck
from sharegroup.model.environment import Environment
from sharegroup.storage.checkup.findings import Finding, Severity
from sharegroup.storage.checkup.folder_check import FolderCheck
from sharegroup.storage.checkup.folder_repair import FolderRepair

JSON_VERSION: Final = 1
_ORDER: Final = {severity: at for at, severity in enumerate(reversed(Severity))}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckProgress:
    """Callbacks that report progress. All calls come from the checking thread."""

    begins: Callable[[int], None]
    """Called with the number of bytes to read."""
    read: Callable[[int], None]
    """Called with the number of bytes read since the last call."""


@dataclass(slots=True, kw_only=True)
class CheckOutcome:
    """The result of a check, and of the repair if there was one."""

    folder: str
    repair: bool
    topics: int = 0
    partitions: int = 0
    share_partitions: int = 0
    size_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether nothing is left to repair."""
        return not any(finding.open for finding in self.findings)

    @property
    def lost_records(self) -> int:
        """The number of offsets in damaged and missing ranges, including ranges known before."""
        kinds = ("damaged-batches", "missing-records", "state-beyond-end")
        return sum(finding.records for finding in self.findings if finding.kind in kinds)

    def count(self, severity: Severity) -> int:
        """How many findings of a severity there are."""
        return sum(finding.severity is severity for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """The outcome as JSON values, for scripts."""
        return {
            "version": JSON_VERSION,
            "folder": self.folder,
            "repair": self.repair,
            "sound": self.sound,
            "topics": self.topics,
            "partitions": self.partitions,
            "share_partitions": self.share_partitions,
            "size_bytes": self.size_bytes,
            "lost_records": self.lost_records,
            "open": sum(finding.open for finding in self.findings),
            "repaired": sum(finding.repaired is not None for finding in self.findings),
            "findings": [finding.as_json() for finding in self.findings],
        }


def fsck(
    environment: Environment, folder: str, *, repair: bool, progress: CheckProgress
) -> CheckOutcome:
    """Check ``folder``; without ``repair`` nothing is written.

    Raises:
        ConfigError: the folder is in use, is not a data folder, or has another version.
        OSError: the folder cannot be read or repaired.
    """
    root = folder.rstrip("/") or "/"
    check = FolderCheck(environment.disk, root, environment.new_id)
    check.lock()
    try:
        outcome = CheckOutcome(folder=folder, repair=repair, size_bytes=check.size())
        progress.begins(outcome.size_bytes)
        check.run(progress.read)
        state = DurableStateCheck(check)
        state.run()
        add_affected_groups(check, state.windows)
        add_security_advice(check)
        if repair:
            FolderRepair(check, environment.new_id).run(state.beyond)
    finally:
        check.unlock()
    outcome.topics = len(check.facts.topics)
    outcome.partitions = len(check.partitions)
    outcome.share_partitions = len(state.windows)
    outcome.findings = sorted(check.findings, key=lambda finding: _ORDER[finding.severity])
    return outcome
