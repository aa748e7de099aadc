"""Loads membership and delivery state of groups as a broker would, and checks them."""

from __future__ import annotations

from typing import Final

from sharegroup.broker.checkup.records import records_of
from sharegroup.broker.delivery.lost_state import OFFSETS_BELIEVED_MAX
from sharegroup.broker.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from sharegroup.groups.classic.groups import ClassicGroups
from sharegroup.groups.classic.requests import Now
from sharegroup.groups.classic.requests import Settings as ClassicSettings
from sharegroup.groups.config import GroupSettings
from sharegroup.groups.consumer.groups import ConsumerGroups
from sharegroup.groups.share.groups import ShareGroups
from sharegroup.model.config import INT_MAX
from sharegroup.model.environment import Disk
from sharegroup.model.errors import SharegroupError
from sharegroup.model.ids import SharePartitionKey, TopicPartition
from sharegroup.model.printable import last_word
from sharegroup.share.partition import SharePartition
from sharegroup.share_state.coordinator import ShareCoordinator
from sharegroup.share_state.state import NO_EPOCH, UNINITIALIZED_OFFSET
from sharegroup.storage.checkup.findings import Finding, Severity
from sharegroup.storage.checkup.folder_check import FolderCheck
from sharegroup.storage.checkup.partition_check import PartitionReport
from sharegroup.wire.internal import classic_groups as classic_records
from sharegroup.wire.internal import consumer_groups as consumer_records
from sharegroup.wire.internal import groups as group_records
from sharegroup.wire.internal import offsets as offset_records
from sharegroup.wire.internal import share_state as state_records

RESET: Final = (
    "stop its members, then reset it with `sharegroup groups reset-offsets --all-topics "
    "--to-earliest --execute {group}` (all records are redelivered), or with --to-latest (only new "
    "records are delivered)"
)


class DurableStateCheck:
    """The state in the internal topics of a checked folder. Adds its findings to ``check``."""

    def __init__(self, check: FolderCheck) -> None:
        self._check = check
        self._disk: Disk = check.disk
        self._machine = ShareCoordinator()
        self._groups = ShareGroups(lambda _: GroupSettings())
        self._classic = ClassicGroups(ClassicSettings(INT_MAX, 0))
        self._consumer_groups = ConsumerGroups(lambda _: GroupSettings())
        self._names = {facts.topic_id: name for name, facts in check.facts.topics.items()}
        self.windows: dict[SharePartitionKey, SharePartition] = {}
        """Each share partition with delivery state, as its leader would load it."""
        self.beyond: dict[TopicPartition, int] = {}
        """Log that ends before offsets that share groups have seen → the end of these offsets."""

    def run(self) -> None:
        """Read and check everything. Raises OSError."""
        for key, report in self._check.partitions.items():
            if key.topic == SHARE_GROUP_STATE:
                self._read_states(report)
            elif key.topic == CONSUMER_OFFSETS:
                self._read_groups(report)
        self._check_machines()
        for share_partition in self._machine.all_keys():
            self._check_state(share_partition)
        self._check_lost()
        self._check_ends()

    # -- reading ------------------------------------------------------------------------------

    def _read_states(self, report: PartitionReport) -> None:
        for offset, key, value in records_of(self._disk, report, self._unreadable(report)):
            try:
                record = state_records.decode_record(key, value)
                if record is not None:
                    self._machine.replay(record.key, record.value, offset)
            except (SharegroupError, IndexError, ValueError) as error:
                self._unreadable(report)(offset, error)

    def _read_groups(self, report: PartitionReport) -> None:
        for offset, key, value in records_of(self._disk, report, self._unreadable(report)):
            try:
                if key[:2] in offset_records.KEY_PREFIXES:
                    offset_records.decode_record(key, value)
                    continue
                if key[:2] == classic_records.KEY_PREFIX:
                    self._classic.replay(classic_records.decode_record(key, value))
                    continue
                if key[:2] in consumer_records.KEY_PREFIXES:
                    self._read_consumer_group(key, value)
                    continue
                record = group_records.decode_record(key, value)
                if record is not None:
                    self._groups.table.replay(record)
            except (SharegroupError, IndexError, ValueError) as error:
                self._unreadable(report)(offset, error)

    def _read_consumer_group(self, key: bytes, value: bytes | None) -> None:
        record = consumer_records.decode_record(key, value)
        if record is not None:
            self._consumer_groups.table.replay(record)

    def _unreadable(self, report: PartitionReport) -> _Unreadable:
        return _Unreadable(self._check, report)

    # -- checking -----------------------------------------------------------------------------

    def _check_machines(self) -> None:
        self._groups.sessions_restarted(0)
        self._classic.replayed(Now(0, 0))
        self._consumer_groups.sessions_restarted(0)
        machines = (
            (CONSUMER_OFFSETS, self._consumer_groups),
            (CONSUMER_OFFSETS, self._groups),
            (CONSUMER_OFFSETS, self._classic),
            (SHARE_GROUP_STATE, self._machine),
        )
        for topic, machine in machines:
            try:
                machine.check_invariants()
            except AssertionError as error:
                self._say(
                    Severity.ERROR,
                    "group-state",
                    topic,
                    f"its content is invalid: {error}",
                    action="stop the group's members, delete the group (`sharegroup groups "
                    "delete`), and let them join again",
                )

    def _check_state(self, key: SharePartitionKey) -> None:
        where = self._where(key)
        if where is None:
            message = "is of a topic that does not exist: `sharegroup serve` deletes it"
            self._say(Severity.INFO, "state-of-no-topic", _state(key), message)
            return
        state, _ = self._machine.read(key, NO_EPOCH, 0)
        if state.start_offset == UNINITIALIZED_OFFSET:
            return
        try:
            self.windows[key] = SharePartition(
                start_offset=state.start_offset,
                state_epoch=state.state_epoch,
                leader_epoch=NO_EPOCH,
                batches=state.batches,
            )
        except ValueError as error:
            self._say(
                Severity.ERROR,
                "state-invalid",
                _state(key),
                f"is invalid: {error}; no records of {where} are delivered to {key.group_id}",
                where=where,
                action=RESET.format(group=last_word(key.group_id)),
            )

    def _check_lost(self) -> None:
        """Find groups that have begun in partitions whose delivery state is lost."""
        for group_id in sorted(self._groups.group_ids()):
            lost = [
                TopicPartition(topic.name, number)
                for topic in self._groups.state_partitions(group_id)
                if topic.topic_id in self._names
                for number in topic.partitions
                if SharePartitionKey(group_id, topic.topic_id, number) not in self._machine
            ]
            for where in lost:
                self._say(
                    Severity.ERROR,
                    "state-lost",
                    f"share group {group_id}",
                    f"has lost its delivery state in {where}: no records of it are delivered",
                    where=where,
                    action=RESET.format(group=last_word(group_id)),
                )

    def _check_ends(self) -> None:
        """Find logs that have lost a tail that groups have seen."""
        for seen, offset in sorted(self._machine.offsets_seen().items()):
            name = self._names.get(seen.topic_id)
            report = self._check.partitions.get(TopicPartition(name or "", seen.partition))
            if report is None or offset <= report.end_offset:
                continue
            if offset - report.end_offset > OFFSETS_BELIEVED_MAX:
                action = "reset the group's offsets (`sharegroup groups reset-offsets`)"
            else:
                action = "run --repair, or start `sharegroup serve`: the log continues after it"
                self.beyond[report.key] = offset
            self._say(
                Severity.ERROR,
                "state-beyond-end",
                str(report.key),
                f"ends at offset {report.end_offset}, but a share group has seen offsets up to "
                f"{offset}: records are lost",
                where=report.key,
                offsets=(report.end_offset, offset - 1),
                action=action,
            )

    def _where(self, key: SharePartitionKey) -> TopicPartition | None:
        name = self._names.get(key.topic_id)
        return None if name is None else TopicPartition(name, key.partition)

    def _say(
        self,
        severity: Severity,
        kind: str,
        place: str,
        message: str,
        *,
        where: TopicPartition | None = None,
        offsets: tuple[int, int] | None = None,
        action: str | None = None,
    ) -> None:
        finding = Finding(severity=severity, kind=kind, place=place, message=message, action=action)
        if where is not None:
            finding.topic, finding.partition = where
        if offsets is not None:
            finding.first_offset, finding.last_offset = offsets
        self._check.findings.append(finding)


class _Unreadable:
    """Reports that a record of an internal topic cannot be read."""

    def __init__(self, check: FolderCheck, report: PartitionReport) -> None:
        self._check = check
        self._report = report

    def __call__(self, offset: int, error: Exception) -> None:
        topic, partition = self._report.key
        self._check.findings.append(
            Finding(
                severity=Severity.ERROR,
                kind="record-unreadable",
                place=str(self._report.key),
                message=f"the record at offset {offset} was not written by a broker: {error}",
                topic=topic,
                partition=partition,
                first_offset=offset,
                last_offset=offset,
                action="`sharegroup serve` cannot start with it; restore the folder from a backup",
            )
        )


def _state(key: SharePartitionKey) -> str:
    return f"delivery state {key}"
