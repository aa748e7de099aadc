"""Passes a sink's decisions to the source, as files in a shared folder (``ackLocation``).

The two run in different processes, and either may be killed. The sink writes a file before Spark
commits its batch. The source reads it when it settles that batch, perhaps in another process after
a restart. The folder holds::

    reader-<topic>.lock              a source reads the answers about this topic: see folder_lock
    reader-<topic>.query             the query whose sink answers
    decisions-<number>-<id>.json     {"v": 1, "topic": name, "commit": path or null, "partitions":
                                      {partition: [[first, last, type, delay_ms], …]},
                                      "reasons": {partition: [[first, last, text], …]}}
    settled-<batch>-<number>-<id>.json    the same; this batch of the source was settled with it

``reasons`` is there only if there are some. ``commit`` is the file that Spark writes into the
query's checkpoint when it commits the batch; null if that file is not known.

The offsets in a decision say which batch it belongs to. A batch number would not do: Spark's batch
ids shift against the source's. If several files decide about one record, the file with the highest
number wins. Before a batch runs again, the source deletes what an earlier attempt has written: a
record that the attempt answered may stay without an answer now.

A released record may be in the next batch too, without an answer there. So the source renames the
files that it has used, before it acknowledges anything: from then on they belong to that batch
only. A file is deleted when a *later* batch is settled: until then a restart settles its batch
again, and must find the same decisions. Files about topics that another source reads are left
alone. Files that no source reads, or that are unreadable, are deleted by the same rule, and a
warning names them.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from sharegroup.client.core.acknowledgements import AckType
from sharegroup.model.errors import ConfigError
from sharegroup.model.ids import TopicIdPartition, TopicPartition
from sharegroup.spark.folder_lock import (
    FolderLock,
    FolderTaken,
    Writer,
    answer_for,
    reader_of,
    topics_read,
)
from sharegroup.spark.ranges import Decision, Reason, without

if TYPE_CHECKING:
    from sharegroup.spark.options.stream import ShareOptions

log = logging.getLogger("sharegroup.spark")

VERSION: Final = 1
NEW: Final = "decisions-"
SETTLED: Final = "settled-"
Table = Mapping[TopicPartition, Sequence[Sequence[int]]]
"""Rows of first, last, type, delay in milliseconds; ascending, disjoint."""
Texts = Mapping[TopicPartition, Sequence[Reason]]
"""Why; ascending, disjoint."""
NO_TEXTS: Final[Texts] = MappingProxyType({})


class AckOutbox:
    """The sink's end: it writes decisions here."""

    def __init__(self, location: str) -> None:
        self._folder = Path(location)

    def put(
        self,
        decisions: Table,
        commit: str | None = None,
        writer: Writer | None = None,
        reasons: Texts = NO_TEXTS,
    ) -> None:
        """Make these decisions durable; the source can read them from now on.

        Args:
            commit: the file that Spark writes when the batch is committed.
            writer: the query that decides; None: not known.
            reasons: why some of the records are rejected or released.

        Raises:
            ConfigError: no source reads one of the topics through this folder, so decisions about
                it would never take effect.
            FolderTaken: another query answers for these records.
        """
        topics: dict[str, dict[str, Any]] = {}
        for (topic, partition), rows in decisions.items():
            topics.setdefault(topic, {})[str(partition)] = rows
        said: dict[str, dict[str, Any]] = {}
        for (topic, partition), texts in reasons.items():
            said.setdefault(topic, {})[str(partition)] = texts
        for topic in topics:
            self._check(topic, writer)
        number = 1 + max((_number(path) for path in _files(self._folder)), default=0)
        for topic, partitions in topics.items():
            name = f"{NEW}{number:012d}-{secrets.token_hex(4)}.json"
            content = {"v": VERSION, "topic": topic, "commit": commit, "partitions": partitions}
            if topic in said:
                content["reasons"] = said[topic]
            _write(self._folder / name, content)
        _sync(self._folder)

    def _check(self, topic: str, writer: Writer | None) -> None:
        reader = reader_of(self._folder, topic)
        if reader is not None:
            if writer is not None:
                answer_for(self._folder, reader, writer)
            return
        known = sorted(topics_read(self._folder))
        if not known:
            raise ConfigError(
                f"no kafka-share source reads ackLocation {self._folder}: give the same folder to "
                "spark.readStream and to the sink"
            )
        raise ConfigError(
            f"answers were given for the topic {topic!r}, and no source reads it through "
            f"ackLocation {self._folder}, only {', '.join(known)}: pass on the column topic as the "
            "source gave it"
        )


class Inbox:
    """The source's end.

    Args:
        location: the folder; made when it is missing.
        group_id: the source's share group.
        default: the acknowledgement type of records without a decision (``defaultAck``).

    Attributes:
        reasons: why records are rejected or released about which the last :meth:`take` has found
            decisions.
    """

    def __init__(self, location: str, group_id: str, default: AckType) -> None:
        self.default = default
        self.reasons: dict[TopicIdPartition, list[Reason]] = {}
        self._folder = Path(location)
        self._lock = FolderLock(self._folder, group_id)
        self._opened = False
        self._settled: set[Path] = set()
        self._commits: dict[Path, tuple[str, Path | None]] = {}

    async def open(self, topics: Collection[str]) -> None:
        """Read the answers about these topics from now on. A second call adds new topics, and
        checks that the folder is still ours.

        Raises:
            FolderTaken: another query reads one of the topics here.
            ConfigError: the folder cannot be made or written.
        """
        self._lock.check()
        if self._opened and self._lock.holds(topics):
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            await self._lock.take(topics)
            _sync(self._folder)
        except OSError as error:
            raise ConfigError(
                f"ackLocation {self._folder} cannot be used: {error}; write a folder that the "
                "driver may write to"
            ) from error
        if not self._opened:
            self.begin()
            self._opened = True

    def close(self) -> None:
        """Stop reading; another query may use the folder."""
        self._lock.release()

    def begin(self) -> None:
        """A batch begins: the files here now belong to earlier batches, see :meth:`committed`."""
        self._commits = dict.fromkeys(_files(self._folder), ("", None))

    def discard(self, topics: Iterable[str]) -> None:
        """A query begins without a checkpoint: delete the files of an earlier query."""
        contents = {path: _content(path) for path in _files(self._folder)}
        for path, content in _about(set(topics), contents).items():
            log.info("%s is of an earlier query: %s", path, content["topic"])
            path.unlink(missing_ok=True)

    def begin_again(self, topics: Iterable[str]) -> None:
        """A batch of these topics runs again: delete the decisions of its earlier attempts. The
        batches before it are settled, so all files that no batch has used are of such attempts."""
        unused = {path: _content(path) for path in _files(self._folder) if _batch_of(path) is None}
        for path in _about(set(topics), unused):
            path.unlink(missing_ok=True)

    def take(
        self, topics: Mapping[UUID, str], sequence: int
    ) -> dict[TopicIdPartition, list[Decision]]:
        """The decisions since the previous batch. They belong to this batch from now on, and the
        files of other batches are deleted.

        Args:
            topics: id and name of the topics that the source reads.
            sequence: of the batch that is settled. If it was settled before, perhaps by an earlier
                process, its decisions are found again.
        """
        _delete_others(self._settled, sequence)  # without a look inside
        names = set(topics.values())
        contents = {path: _content(path) for path in sorted(_files(self._folder), key=_order)}
        files = _about(names, contents)
        left = _delete_others([*files, *self._strays(names, contents)], sequence)
        self._settled = self._given_to(sequence, left)
        self._commits = {}
        self.reasons = {}
        found: dict[TopicIdPartition, list[Decision]] = {}
        for content in (files[path] for path in left if path in files):
            ids = [topic_id for topic_id, name in topics.items() if name == content["topic"]]
            for number, rows in content["partitions"].items():
                for key in (TopicIdPartition(topic_id, int(number)) for topic_id in ids):
                    new = [Decision(*row) for row in rows]
                    self._note_reasons(key, new, content.get("reasons", {}).get(number, ()))
                    kept = without(found.get(key, ()), new)
                    found[key] = sorted(kept + new) if kept else new
        return found

    def _given_to(self, sequence: int, paths: Iterable[Path]) -> set[Path]:
        """Rename the new ones of these files, so that they belong to the batch ``sequence`` for
        good. Returns what the files are called now."""
        names = {p: p.name.replace(NEW, f"{SETTLED}{sequence}-", 1) for p in paths}
        for path, name in names.items():
            with suppress(FileNotFoundError):  # a stray, and another source was quicker
                path.rename(path.with_name(name))
        if names:
            _sync(self._folder)
        return {path.with_name(name) for path, name in names.items()}

    def _note_reasons(
        self, key: TopicIdPartition, decided: Sequence[Decision], rows: Sequence[Sequence[Any]]
    ) -> None:
        """Take the reasons of a file; its decisions replace those of earlier files."""
        kept = without(self.reasons.get(key, ()), decided)
        reasons = sorted([*kept, *(Reason(*row) for row in rows)])
        if reasons:
            self.reasons[key] = reasons
        else:
            self.reasons.pop(key, None)

    def committed(self, topics: Collection[str]) -> bool:
        """Whether Spark has committed the batch whose decisions came since :meth:`begin` and the
        last :meth:`take`; False if that cannot be known."""
        try:
            self._lock.check()
        except FolderTaken:  # Spark's next call reports it
            return False
        known = self._commits  # :meth:`begin` may replace these for the next batch meanwhile
        for path in _files(self._folder):
            if path not in known and _batch_of(path) is None:
                content = _content(path) or {"topic": "", "commit": None}
                commit = content["commit"]
                known[path] = content["topic"], None if commit is None else Path(commit)
        found = [commit for topic, commit in known.values() if topic in topics]
        return bool(found) and all(commit is not None and commit.exists() for commit in found)

    def _strays(self, topics: set[str], contents: Mapping[Path, Any]) -> list[Path]:
        """Files that no source will ever read; a warning names them."""
        read = topics_read(self._folder) | topics
        strays = []
        for path, content in contents.items():
            if content is None or content["topic"] not in read:
                strays.append(path)
            if content is not None and content["topic"] not in read:
                log.warning("%s answers for %s, which nobody reads here", path, content["topic"])
        return strays


def make_inbox(options: ShareOptions) -> Inbox | None:
    """The inbox that a stream's options ask for; None: all records of a batch are accepted."""
    if options.ack_location is None:
        return None
    default = AckType[(options.default_ack or "release").upper()]
    return Inbox(options.ack_location, options.group_id, default)


def _about(topics: set[str], contents: Mapping[Path, Any]) -> dict[Path, Any]:
    return {path: one for path, one in contents.items() if one and one["topic"] in topics}


def _files(folder: Path) -> list[Path]:
    # In this order: a file that is renamed meanwhile is seen twice, not missed.
    return [*folder.glob(f"{NEW}*-*.json"), *folder.glob(f"{SETTLED}*-*-*.json")]


def _number(path: Path) -> int:
    return int(path.name.split("-")[-2])


def _order(path: Path) -> tuple[int, str]:
    """The order in which files were written."""
    return _number(path), path.name


def _batch_of(path: Path) -> int | None:
    """The batch that the file belongs to since it was settled; None: none has used the file."""
    return None if path.name.startswith(NEW) else int(path.name.split("-")[1])


def _delete_others(paths: Iterable[Path], sequence: int) -> list[Path]:
    """Delete the files that belong to other batches than ``sequence``. Returns the rest."""
    left = []
    for path in paths:
        if _batch_of(path) in (None, sequence):
            left.append(path)
        else:
            path.unlink(missing_ok=True)
    return left


def _content(path: Path) -> Any:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:  # deleted meanwhile: its batch is settled
        return None
    except (OSError, ValueError) as error:
        log.error("%s cannot be read, its decisions have no effect: %s", path, error)
        return None
    if content.get("v") != VERSION:
        log.error("%s was written by another version of sharegroup: it has no effect", path)
        return None
    return content


def _write(path: Path, content: Any) -> None:
    """Write the file atomically, and sync it so that it survives a power cut."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with scratch.open("w") as file:
        json.dump(content, file, separators=(",", ":"))
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
