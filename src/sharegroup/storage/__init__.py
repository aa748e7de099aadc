"""The log in local segment files, in Kafka's own formats, and the durable facts of a data folder.

Reading order: ``settings`` → ``failures`` → ``local_file`` → ``disk`` → ``indexes`` → ``damage`` →
``quarantine`` → ``segment`` → ``segments`` → ``flush`` → ``rolling`` → ``partition_log`` →
``segment_walk`` → ``recovery`` → ``retention`` → ``catalog`` → ``partitions`` → ``topic_changes`` →
``offset_checkpoints`` → ``data_folder``.
"""

from __future__ import annotations

from sharegroup.model.log_settings import FlushPolicy, LogSettings, TimestampType
from sharegroup.storage.data_folder import DataFolder, DataFolderBusy, DataFolderSettings
from sharegroup.storage.disk import LocalDisk, SyncFailed
from sharegroup.storage.partition_log import LocalPartitionLog
from sharegroup.storage.recovery import Recovered

__all__ = [
    "DataFolder",
    "DataFolderBusy",
    "DataFolderSettings",
    "FlushPolicy",
    "LocalDisk",
    "LocalPartitionLog",
    "LogSettings",
    "Recovered",
    "SyncFailed",
    "TimestampType",
]
