"""How damage in a topic affects each share group, by the group's durable state, and how damage
affects a start."""

from __future__ import annotations

from collections.abc import Mapping

from sharegroup.broker.configs.access import DAMAGE_ACCEPTED
from sharegroup.broker.internal_topics import SECURITY
from sharegroup.model.ids import SharePartitionKey
from sharegroup.share.partition import SharePartition
from sharegroup.share.record_state import TERMINAL
from sharegroup.storage.checkup.findings import Affected, Severity
from sharegroup.storage.checkup.folder_check import FolderCheck


def add_affected_groups(
    check: FolderCheck, windows: Mapping[SharePartitionKey, SharePartition]
) -> None:
    """Add to each finding with offsets of a topic how it affects the topic's share groups."""
    by_place: dict[tuple[str, int], list[tuple[str, SharePartition]]] = {}
    names = {facts.topic_id: name for name, facts in check.facts.topics.items()}
    for key, window in sorted(windows.items()):
        place = names[key.topic_id], key.partition
        by_place.setdefault(place, []).append((key.group_id, window))
    for finding in check.findings:
        if finding.topic is None or finding.partition is None or not finding.records:
            continue
        first, last = finding.first_offset or 0, finding.last_offset or 0
        for group, window in by_place.get((finding.topic, finding.partition), ()):
            finding.groups.append(affected(group, window, first, last))


def add_security_advice(check: FolderCheck) -> None:
    """Add how to start a broker although records of users, ACLs or quotas are lost: at every start
    the broker refuses until the operator accepts the loss.
    """
    lost = [each for each in check.findings if each.topic == SECURITY and each.records]
    end = max((each.last_offset or 0 for each in lost), default=0) + 1
    for finding in lost:
        if finding.severity in (Severity.ERROR, Severity.KNOWN):
            finding.severity = Severity.ERROR
            finding.action = (
                "restore the folder from a backup; or start once with "
                f"-o {DAMAGE_ACCEPTED}={end}, on an address that nobody else reaches, and put "
                "right what `sharegroup users list`, `acls list` and `quotas list` show"
            )


def affected(group: str, window: SharePartition, first: int, last: int) -> Affected:
    """How damage of the offsets ``first`` … ``last`` affects a group with this durable state."""
    start, end = window.start_offset, window.end_offset
    passed = max(0, min(last + 1, start) - first)
    not_delivered = max(0, last + 1 - max(first, end))
    in_flight = 0
    if first < end and last >= start:
        for span in window.spans(max(first, start)):
            size = min(span.last, last) - max(span.first, first) + 1
            if size <= 0:
                break
            if span.state in TERMINAL:
                passed += size
            else:
                in_flight += size
    return Affected(group=group, passed=passed, in_flight=in_flight, not_delivered=not_delivered)
