"""The lock on an ``ackLocation``: one reader for each topic in the folder.

Answers name their records by topic, partition and offset. Two queries that read one topic through
one folder would settle each other's records, so the second one is refused. Two sources of one query
may share a folder if they read different topics; therefore each topic has its own lock::

    reader-<digest of the topic>.lock    {"v": 1, "topic": …, "group": …, "pid": …, "host": …,
                                          "since": …, "token": …}

The lock is held with ``flock``, which the system releases when the process ends, also after
``kill -9``. The content of the file names the holder. If a file system cannot lock at all (some
object store mounts), or cannot lock between hosts, the conflict is detected later: the newer reader
has written its own token, and the older one fails at its next batch.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import hashlib
import json
import logging
import os
import secrets
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sharegroup.model.errors import SharegroupError

log = logging.getLogger("sharegroup.spark")

WAIT_SECONDS: Final = 5.0
"""A query that was killed, or is stopping, may hold its locks for a few seconds."""
POLL_SECONDS: Final = 0.05
_HELD: Final = (errno.EWOULDBLOCK, errno.EACCES)
_CANNOT_LOCK: Final = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)


class FolderTaken(SharegroupError):
    """Another query reads its answers from the folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderReader:
    """The source that reads the answers about one topic."""

    topic: str
    group: str
    pid: int
    host: str
    since: str
    token: str
    """A random text, new each time that a source takes the lock."""

    def __str__(self) -> str:
        return (
            f"process {self.pid} on {self.host}, which reads {self.topic} for the group "
            f"{self.group} since {self.since}"
        )


def lock_file(folder: Path, topic: str) -> Path:
    """The file that is locked for a topic."""
    return folder / f"reader-{hashlib.sha256(topic.encode()).hexdigest()[:16]}.lock"


def reader_of(folder: Path, topic: str) -> FolderReader | None:
    """The present or last reader of this topic in the folder; None: there was none."""
    return _reader(lock_file(folder, topic))


def topics_read(folder: Path) -> set[str]:
    """The topics that are, or were, read through the folder."""
    return {one.topic for one in map(_reader, folder.glob("reader-*.lock")) if one is not None}


class FolderLock:
    """The locks of one source. They end with :meth:`release`, or with the process."""

    def __init__(self, folder: Path, group_id: str) -> None:
        self._folder = folder
        self._group_id = group_id
        self._held: dict[str, tuple[int, FolderReader]] = {}

    def holds(self, topics: Iterable[str]) -> bool:
        """Whether these topics are locked."""
        return all(topic in self._held for topic in topics)

    async def take(self, topics: Iterable[str]) -> None:
        """Lock these topics; topics that this source has locked already stay locked.

        Raises:
            FolderTaken: another source still reads one of these topics after ``WAIT_SECONDS``.
            OSError: the folder cannot be written.
        """
        deadline = asyncio.get_running_loop().time() + WAIT_SECONDS
        for topic in topics:
            while topic not in self._held and not self._locked(topic):
                if asyncio.get_running_loop().time() > deadline:
                    raise FolderTaken(self._in_use(topic))
                await asyncio.sleep(POLL_SECONDS)

    def check(self) -> None:
        """Check that the folder is still ours.

        Raises:
            FolderTaken: another source has overwritten our token.
        """
        for topic, (_, ours) in self._held.items():
            now = reader_of(self._folder, topic)
            if now is not None and now.token != ours.token:
                raise FolderTaken(
                    f"ackLocation {self._folder} was taken by {now}: its file system does not hold "
                    "locks between these two. Give each query a folder of its own"
                )

    def release(self) -> None:
        """Release all locks."""
        for descriptor, _ in self._held.values():
            os.close(descriptor)
        self._held.clear()

    def _locked(self, topic: str) -> bool:
        """Try once to lock the topic. Returns whether it worked."""
        descriptor = os.open(lock_file(self._folder, topic), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _HELD:
                os.close(descriptor)
                return False
            if error.errno not in _CANNOT_LOCK:
                os.close(descriptor)
                raise
            log.warning(
                "ackLocation %s cannot be locked (%s): a second query with the same folder is only "
                "noticed when it has begun",
                self._folder,
                error.strerror,
            )
        reader = FolderReader(
            topic=topic,
            group=self._group_id,
            pid=os.getpid(),
            host=socket.gethostname(),
            since=datetime.now(UTC).isoformat(timespec="seconds"),
            token=secrets.token_hex(8),
        )
        content = json.dumps({"v": 1, **asdict(reader)}).encode()
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, content, 0)
        os.fsync(descriptor)
        self._held[topic] = descriptor, reader
        return True

    def _in_use(self, topic: str) -> str:
        reader = reader_of(self._folder, topic)
        writer = writer_of(self._folder, reader)
        return (
            f"ackLocation {self._folder} is in use by {reader or 'another process'}"
            f"{f' ({writer})' if writer else ''}: "
            "one folder belongs to one query. Stop that one, or give this query a folder of its own"
        )


# --- the sink's side ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Writer:
    """The query whose sink answers for a reader's records."""

    checkpoint: str
    name: str | None

    def __str__(self) -> str:
        named = f"the query {self.name}" if self.name else "the query"
        return f"{named} with the checkpoint {self.checkpoint}"


def writer_of(folder: Path, reader: FolderReader | None) -> Writer | None:
    """The query that has answered for this reader; None: no query has yet, or it is not known."""
    known = None if reader is None else _content(_writer_file(folder, reader.topic))
    if reader is None or known is None or known.get("token") != reader.token:
        return None
    return Writer(known["checkpoint"], known.get("name"))


def answer_for(folder: Path, reader: FolderReader, writer: Writer) -> None:
    """Record that ``writer`` answers for the records of ``reader``, if no query does yet.

    Raises:
        FolderTaken: another query answers for these records.
    """
    known = writer_of(folder, reader)
    if known is None:
        path = _writer_file(folder, reader.topic)
        scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        scratch.write_text(json.dumps({"v": 1, "token": reader.token, **asdict(writer)}))
        scratch.replace(path)
    elif known.checkpoint != writer.checkpoint:
        raise FolderTaken(
            f"ackLocation {folder} belongs to {known}, whose source is {reader}: {writer} must not "
            "answer for its records. Give each query a folder of its own"
        )


def _writer_file(folder: Path, topic: str) -> Path:
    return lock_file(folder, topic).with_suffix(".query")


def _reader(path: Path) -> FolderReader | None:
    known = _content(path)
    if known is None:
        return None
    with suppress(TypeError):  # the file is of another version
        return FolderReader(**{name: value for name, value in known.items() if name != "v"})
    return None


def _content(path: Path) -> dict[str, Any] | None:
    """The file's content; None: it does not exist, or is being written."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and content.get("v") == 1 else None
