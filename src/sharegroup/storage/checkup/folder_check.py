"""Checks a whole data folder: the catalog, the small files, and every partition."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from sharegroup.model.environment import Disk
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicPartition, topic_id_text
from sharegroup.storage import checkpoints, gaps, swapping
from sharegroup.storage.batch_reader import RELATIVE_OFFSET_MAX
from sharegroup.storage.catalog import FILE_NAME, Facts
from sharegroup.storage.checkup import small_files
from sharegroup.storage.checkup.facts import CatalogState, read_catalog
from sharegroup.storage.checkup.findings import Finding, Severity
from sharegroup.storage.checkup.partition_check import PartitionCheck, PartitionReport, base_of
from sharegroup.storage.checkup.segment_check import OnBytes
from sharegroup.storage.data_folder import DataFolderBusy
from sharegroup.storage.missing_catalog import partition_folders
from sharegroup.storage.recovery import LastKnown

_OURS: Final = (FILE_NAME, checkpoints.META_PROPERTIES, checkpoints.CLEAN_MARKER)
_KAFKAS_OWN: Final = TopicPartition("__cluster_metadata", 0)
_SET_ASIDE: Final = re.compile(r".+\.[0-9a-f]{32}-(delete|stray)")
_DECIDED: Final = swapping.LOG + swapping.SWAP
"""Ending of the file whose presence decides that a cleaned segment is used."""
_SERVE_REWRITES: Final = "`sharegroup serve` rewrites it; --repair rewrites it now"
SETTINGS_LOST: Final = (
    "the settings of topics, groups and the broker are lost: the defaults apply (such as a "
    "retention of one week) until they are set again"
)


class NotADataFolder(ConfigError):
    """The folder is not a data folder of a broker."""


class FolderCheck:
    """The check of one data folder. Call :meth:`lock` first and :meth:`unlock` at the end.

    Args:
        root: the folder.
        new_id: makes random ids in place of lost ones.
    """

    def __init__(self, disk: Disk, root: str, new_id: Callable[[], UUID]) -> None:
        self.disk = disk
        self.root = root
        self.findings: list[Finding] = []
        self.partitions: dict[TopicPartition, PartitionReport] = {}
        self.known: dict[TopicPartition, LastKnown] = {}
        self.clean = False
        self.catalog = CatalogState(Facts(cluster_id=""))
        self.folders: list[TopicPartition] = []
        self.rewrite: dict[str, str] = {}
        """Checkpoint files that must be rewritten → what is wrong with them."""
        self._new_id = new_id
        self._made_lock = False

    @property
    def facts(self) -> Facts:
        """The facts that the folder is checked against."""
        return self.catalog.facts

    def lock(self) -> None:
        """Lock the folder, so that no broker opens it. A missing lock file is created, and removed
        by :meth:`unlock`.

        Raises:
            DataFolderBusy: another process holds the folder.
            NotADataFolder: it is not a data folder.
            OSError: it cannot be read.
        """
        if not self.disk.exists(self.root):
            raise NotADataFolder(f"{self.root} does not exist")
        names = self.disk.list(self.root)
        self.folders = partition_folders(self.disk, self.root)
        if not self.folders and not any(name in names for name in _OURS):
            raise NotADataFolder(f"{self.root} is not a data folder of a broker")
        if FILE_NAME not in names and _KAFKAS_OWN in self.folders:
            raise NotADataFolder(f"{self.root} is a data folder of Apache Kafka")
        self._made_lock = ".lock" not in names
        try:
            self.disk.lock(f"{self.root}/.lock")
        except BlockingIOError as error:
            raise DataFolderBusy(
                f"data folder {self.root} is in use by another process: stop the broker first"
            ) from error

    def unlock(self) -> None:
        """Release the lock."""
        if self._made_lock:
            self.disk.remove(f"{self.root}/.lock")
        self.disk.unlock(f"{self.root}/.lock")

    def size(self) -> int:
        """Bytes of all logs, all of which a check reads."""
        total = 0
        for key in self.folders:
            folder = f"{self.root}/{key}"
            for name in self.disk.list(folder):
                if base_of(name, ".log") is not None:
                    file = self.disk.open(f"{folder}/{name}")
                    total += file.size()
                    file.close()
        return total

    def run(self, on_bytes: OnBytes) -> None:
        """Check everything. Writes nothing.

        Raises:
            ConfigError: the catalog has another version.
            OSError: the folder cannot be read.
        """
        self.catalog = read_catalog(self.disk, self.root, self.folders, self._new_id)
        self.clean = self.disk.exists(f"{self.root}/{checkpoints.CLEAN_MARKER}")
        if self.catalog.problem is not None:
            self._say(
                Severity.ERROR,
                "catalog",
                FILE_NAME,
                f"{self.catalog.problem}; {SETTINGS_LOST}",
                action="restore it from a backup, or run --repair: it rebuilds the topics from "
                "their folders",
            )
        elif not self.clean and self.facts.topics:
            self._say(
                Severity.INFO,
                "not-clean",
                checkpoints.CLEAN_MARKER,
                "is missing: the broker was not shut down cleanly, and `sharegroup serve` will "
                "scan the logs from their recovery points on",
            )
        self._check_meta_properties()
        self._check_names()
        points = self._checkpoint(checkpoints.RECOVERY_POINTS)
        starts = self._checkpoint(checkpoints.LOG_STARTS)
        cleaned = self._checkpoint(checkpoints.CLEANED)
        sparse = self._checkpoint(checkpoints.SPARSE)
        altered = {**self.facts.cluster_configs, **self.facts.broker_configs}
        for topic, facts in sorted(self.facts.topics.items()):
            for number in range(facts.partitions):
                key = TopicPartition(topic, number)
                in_kafkas = self._believed(key, cleaned, checkpoints.CLEANED) or 0
                in_ours = self._believed(key, sparse, checkpoints.SPARSE) or 0
                compacted = gaps.is_compacted(topic, facts.configs, altered)
                foreign = gaps.foreign_until(in_kafkas, in_ours) if compacted else 0
                known = LastKnown(
                    clean=self.clean,
                    recovery_point=self._believed(key, points, checkpoints.RECOVERY_POINTS) or 0,
                    log_start_offset=self._believed(key, starts, checkpoints.LOG_STARTS),
                    cleaned_offset=max(in_kafkas, in_ours),
                    gaps_below=foreign,
                )
                self._check_partition(key, facts.topic_id, known, on_bytes)

    # -- files of the folder ------------------------------------------------------------------

    def _check_meta_properties(self) -> None:
        name = checkpoints.META_PROPERTIES
        found = small_files.read_meta_properties(self.disk, self.root)
        problem = None
        if found is None:
            there = self.disk.exists(f"{self.root}/{name}")
            problem = "is damaged" if there else "is missing"
        elif found["cluster.id"] != self.facts.cluster_id:
            problem = f"names cluster {found['cluster.id']!r}, not {self.facts.cluster_id!r}"
        if problem is not None:
            self._say(Severity.WARNING, "meta-properties", name, problem, action=_SERVE_REWRITES)

    def _check_names(self) -> None:
        """Find folders that belong to no topic, and leftovers."""
        owned = set(self.keys())
        for key in self.folders:
            if key not in owned:
                self._say(
                    Severity.WARNING,
                    "stray-folder",
                    str(key),
                    "belongs to no topic in the catalog: no client can read it",
                    action="`sharegroup serve` sets it aside; restore catalog.json from a backup "
                    "if the topic was not deleted",
                )
        for name in self.disk.list(self.root):
            match = _SET_ASIDE.fullmatch(name)
            if match is not None and match[1] == "stray":
                message = "was set aside earlier: remove it if its records are not needed"
                self._say(Severity.INFO, "set-aside", name, message)
            elif match is not None:
                message = "belongs to a deleted topic: `sharegroup serve` removes it"
                self._say(Severity.INFO, "deleted-topic", name, message)
            elif name.endswith(".tmp"):
                self._say(
                    Severity.INFO,
                    "temporary-file",
                    name,
                    "was left by a write that a crash interrupted; nothing reads it",
                )

    def keys(self) -> Sequence[TopicPartition]:
        """All partitions in the catalog."""
        return [
            TopicPartition(topic, number)
            for topic, facts in self.facts.topics.items()
            for number in range(facts.partitions)
        ]

    # -- checkpoints --------------------------------------------------------------------------

    def _checkpoint(self, name: str) -> dict[TopicPartition, int]:
        path = f"{self.root}/{name}"
        found: dict[TopicPartition, int] = {}
        problem = None
        try:
            found = checkpoints.read_offsets(self.disk, path)
        except checkpoints.DamagedCheckpoint as error:
            problem = f"cannot be used: {error.reason}"
        missed = name not in checkpoints.OF_CLEANER and self.clean and bool(self.facts.topics)
        if missed and not self.disk.exists(path):
            problem = "is missing"
        if problem is not None:
            self._bad_checkpoint(name, problem)
        return found

    def _bad_checkpoint(self, name: str, problem: str) -> None:
        self.rewrite[name] = problem
        if name == checkpoints.LOG_STARTS:
            problem += "; records deleted by DeleteRecords may be readable again"
        action = "--repair rewrites it from the logs"
        self._say(Severity.WARNING, "checkpoint", name, problem, action=action)

    def _believed(
        self, key: TopicPartition, offsets: dict[TopicPartition, int], name: str
    ) -> int | None:
        """A partition's offset in a checkpoint; None if its log cannot have that offset."""
        offset = offsets.get(key)
        if offset is None or not offset:
            return offset
        last = 0
        if key in self.folders:
            names = self.disk.list(f"{self.root}/{key}")
            last = max((base_of(each, ".log") or 0 for each in names), default=0)
        if offset <= last + RELATIVE_OFFSET_MAX:
            return offset
        self._bad_checkpoint(name, f"has offset {offset} for {key}, which is impossible")
        return None

    # -- partitions ---------------------------------------------------------------------------

    def _check_partition(
        self, key: TopicPartition, topic_id: UUID, known: LastKnown, on_bytes: OnBytes
    ) -> None:
        if key in self.folders:
            self._check_identity(key, topic_id)
        elif not known.recovery_point:
            message = "has no folder: `sharegroup serve` creates an empty one"
            self._say(Severity.INFO, "no-folder", str(key), message, key=key)
        else:
            self._say(
                Severity.ERROR,
                "folder-missing",
                str(key),
                "has no folder: all of its records are lost",
                key=key,
                action="restore it from a backup, or run --repair",
            )
        if key in self.folders:
            self._check_cleaning(key)
        check = PartitionCheck(self.disk, self.root, key, known, self.findings)
        report = self.partitions[key] = check.run(on_bytes)
        start = known.log_start_offset
        if start is not None and start > max(report.end_offset, known.recovery_point):
            self._bad_checkpoint(
                checkpoints.LOG_STARTS,
                f"says that {key} starts at {start}, but it ends at {report.end_offset}: this "
                "hides all records",
            )
            known = replace(known, log_start_offset=None)
            report.log_start = report.segments[0].base_offset
        self.known[key] = known

    def _check_cleaning(self, key: TopicPartition) -> None:
        """Say so if the log cleaner was interrupted."""
        names = self.disk.list(f"{self.root}/{key}")
        exchanged = {name.split(".")[0] for name in names if name.endswith(_DECIDED)}
        unfinished = {
            name.split(".")[0] for name in names if name.endswith((swapping.CLEANED, swapping.SWAP))
        }
        for base in sorted(unfinished - exchanged):
            self._say(
                Severity.INFO,
                "cleaning",
                f"{key}/{base}.*{swapping.CLEANED}",
                "was being written by the log cleaner, which was interrupted; nothing uses it, "
                "and `sharegroup serve` removes it",
                key=key,
            )
        for name in names:
            if name.endswith(_DECIDED):
                self._say(
                    Severity.INFO,
                    "cleaning",
                    f"{key}/{name}",
                    "is a cleaned segment that was about to be used; `sharegroup serve` takes it "
                    "into use, if it is whole",
                    key=key,
                )

    def _check_identity(self, key: TopicPartition, topic_id: UUID) -> None:
        folder = f"{self.root}/{key}"
        place = f"{key}/{checkpoints.PARTITION_METADATA}"
        found = small_files.read_topic_id(self.disk, folder)
        if found is None:
            there = self.disk.exists(f"{self.root}/{place}")
            self._damaged_id(key, place, "is damaged" if there else "is missing")
        elif found != topic_id:
            self._other_id(key, place, found, topic_id)
        problem_of_epochs = small_files.leader_epochs_problem(self.disk, folder)
        if problem_of_epochs is not None and found is not None:
            self._say(
                Severity.WARNING,
                "leader-epochs",
                f"{key}/{checkpoints.LEADER_EPOCHS}",
                problem_of_epochs,
                key=key,
                action="--repair rewrites it",
            )

    def _damaged_id(self, key: TopicPartition, place: str, problem: str) -> None:
        action = _SERVE_REWRITES
        self._say(Severity.WARNING, "partition-metadata", place, problem, key=key, action=action)

    def _other_id(self, key: TopicPartition, place: str, found: UUID, topic_id: UUID) -> None:
        says = f"has topic id {topic_id_text(found)}, the catalog {topic_id_text(topic_id)}"
        if checkpoints.is_same_id(found, topic_id):
            self._damaged_id(key, place, f"is damaged: it {says}, which is nearly the same")
            return
        self._say(
            Severity.ERROR,
            "other-topic",
            place,
            f"{says}: the records are another topic's, and `sharegroup serve` will set them aside",
            key=key,
            action="restore the folder from a backup; if the records are the topic's after all, "
            "delete this file before `sharegroup serve`",
        )

    def _say(
        self,
        severity: Severity,
        kind: str,
        place: str,
        message: str,
        *,
        key: TopicPartition | None = None,
        action: str | None = None,
    ) -> None:
        finding = Finding(severity=severity, kind=kind, place=place, message=message, action=action)
        if key is not None:
            finding.topic, finding.partition = key
        self.findings.append(finding)
