"""Repairs a whole data folder after its check. Files that may hold data are set aside, never
deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from uuid import UUID

from sharegroup.model.ids import TopicPartition
from sharegroup.storage import checkpoints, swapping
from sharegroup.storage.catalog import FILE_NAME, Catalog
from sharegroup.storage.checkup import small_files
from sharegroup.storage.checkup.facts import PRODUCER_IDS_SPARE
from sharegroup.storage.checkup.findings import Finding
from sharegroup.storage.checkup.folder_check import FolderCheck
from sharegroup.storage.checkup.repair import PartitionRepair, free_name, give_up, set_aside

_NAME_LENGTH = 200
"""Characters of the old name that a folder keeps when it is set aside, as under ``serve``
(``storage.partition_folders``)."""


class FolderRepair:
    """The repair after ``check``, which has run and holds the lock. ``new_id`` makes random ids."""

    def __init__(self, check: FolderCheck, new_id: Callable[[], UUID]) -> None:
        self._check = check
        self._disk = check.disk
        self._new_id = new_id

    def run(self, given: Mapping[TopicPartition, int]) -> None:
        """Repair what can be repaired and note it in the findings. ``given`` has, for each log that
        ends too early, the end of the offsets that share groups have seen. Raises OSError.
        """
        self._stray_folders()
        for key, end_offset in given.items():
            findings = self._open("state-beyond-end", key)
            give_up(self._check.partitions[key], end_offset, findings)
        for key, report in self._check.partitions.items():
            sparse_below = self._check.known[key].cleaned_offset
            if report.exchanges:  # the check has seen the segments as they are after this
                swapping.recover(self._disk, report.folder, sparse_below)
            PartitionRepair(self._disk, report, sparse_below).run()
            self._identity(key)
        self._meta_properties()
        self._checkpoints()
        self._catalog()

    def _open(self, kind: str, key: TopicPartition | None = None) -> list[Finding]:
        return [
            finding
            for finding in self._check.findings
            if finding.open
            and finding.kind == kind
            and (key is None or (finding.topic, finding.partition) == key)
        ]

    def _stray_folders(self) -> None:
        for finding in self._open("stray-folder"):
            folder = f"{self._check.root}/{finding.place}"
            found = small_files.read_topic_id(self._disk, folder) or self._new_id()
            topic, _, number = finding.place.rpartition("-")
            aside = f"{topic[:_NAME_LENGTH]}-{number}.{found.hex}-stray"
            if self._disk.exists(f"{self._check.root}/{aside}"):
                aside = f"{topic[:_NAME_LENGTH]}-{number}.{self._new_id().hex}-stray"
            self._disk.rename(folder, f"{self._check.root}/{aside}")
            finding.repaired = f"set aside as {aside}"

    def _identity(self, key: TopicPartition) -> None:
        topic_id = self._check.facts.topics[key.topic].topic_id
        folder = f"{self._check.root}/{key}"
        for finding in self._open("folder-missing", key):
            self._write(folder, checkpoints.PARTITION_METADATA, topic_id)
            finding.repaired = "created again; its records are lost"
        for finding in self._open("partition-metadata", key):
            self._write(folder, checkpoints.PARTITION_METADATA, topic_id)
            finding.repaired = "rewritten with the topic's id"
        for finding in self._open("leader-epochs", key):
            content = checkpoints.LEADER_EPOCHS_CONTENT
            self._disk.write_file(f"{folder}/{checkpoints.LEADER_EPOCHS}", content)
            finding.repaired = "rewritten"

    def _write(self, folder: str, name: str, topic_id: UUID) -> None:
        self._disk.make_folder(folder)
        self._disk.write_file(f"{folder}/{name}", checkpoints.partition_metadata(topic_id))
        if small_files.leader_epochs_problem(self._disk, folder) is not None:
            content = checkpoints.LEADER_EPOCHS_CONTENT
            self._disk.write_file(f"{folder}/{checkpoints.LEADER_EPOCHS}", content)

    def _meta_properties(self) -> None:
        for finding in self._open("meta-properties"):
            path = f"{self._check.root}/{checkpoints.META_PROPERTIES}"
            known = small_files.read_meta_properties(self._disk, self._check.root) or {}
            node_id = int(known.get("node.id", "1"))
            content = checkpoints.meta_properties(self._check.facts.cluster_id, node_id)
            self._disk.write_file(path, content)
            finding.repaired = "rewritten"

    def _checkpoints(self) -> None:
        for name in self._check.rewrite:
            path = f"{self._check.root}/{name}"
            aside = ""
            if self._disk.exists(path):
                aside = f"; the damaged one is kept as {set_aside(self._disk, path)}"
            if name not in checkpoints.OF_CLEANER:
                checkpoints.write_offsets(self._disk, path, self._offsets(name))
            for finding in self._open("checkpoint"):
                if finding.place == name:
                    finding.repaired = f"rewritten from the logs{aside}"

    def _offsets(self, name: str) -> dict[TopicPartition, int]:
        """The offsets for a checkpoint file. Only after a clean shutdown is a whole log durable."""
        offsets = {}
        for key, report in self._check.partitions.items():
            known = self._check.known[key]
            if name == checkpoints.LOG_STARTS:
                offsets[key] = report.log_start
            else:
                offsets[key] = report.end_offset if report.clean else known.recovery_point
        return offsets

    def _catalog(self) -> None:
        problem = self._check.catalog.problem
        if problem is None:
            return
        path = f"{self._check.root}/{FILE_NAME}"
        aside = ""
        if self._disk.exists(path):
            kept = free_name(self._disk, path)
            self._disk.write_file(kept, self._disk.read_file(path))
            aside = f"; the damaged one is kept as {kept.rpartition('/')[2]}"
        ids = [report.producer_id_max for report in self._check.partitions.values()]
        end = max(ids, default=-1) + 1 + PRODUCER_IDS_SPARE
        facts = replace(self._check.facts, producer_ids_end=0)
        Catalog(self._disk, self._check.root, facts).put_producer_ids_end(end)
        topics = ", ".join(
            f"{name} ({topic.partitions})" for name, topic in sorted(facts.topics.items())
        )
        for finding in self._open("catalog"):
            finding.repaired = (
                f"rebuilt from the folders, with the topics (partitions) {topics or 'none'}{aside}"
            )
