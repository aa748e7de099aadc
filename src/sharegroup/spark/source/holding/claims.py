"""Claims: the files that ``ackMode`` claim writes before it accepts records at the broker.

From then on the broker's state is no longer needed: Spark's checkpoint and this folder
(``claimLocation``) together hold every record that was accepted and is not processed yet. The
folder holds::

    folder.json            {"v": 1, "id": …, "group": …}: which folder this is, and of which group
    kept-<first>-<last>    empty; its name says which claims are here (:mod:`kept_claims`)
    lock                   locked by the source that works here, for as long as its process lives
    claim-<number>.json    the records, in the form of an offset of the stream (``offsets.py``, with
                           the claim's number as ``e``); on a second line the CRC-32C of the first
    damaged/               files that were found damaged, under their names

Claims are numbered from 1, and batches take their records in this order. So a single
:class:`ClaimPosition`, stored in every offset of the stream, says which records Spark has. A batch
that is not in Spark's checkpoint is made again from the position of the batch before.

A half-written claim has no final file name yet, and none of its records was accepted.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import IO, Any, Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from sharegroup.model.errors import ConfigError, SharegroupError
from sharegroup.spark.source.holding import kept_claims
from sharegroup.spark.source.holding.kept_claims import KeptClaims
from sharegroup.spark.source.offsets import BatchOffset, ClaimPosition, Ranges, from_json, to_json

log = logging.getLogger("sharegroup.spark")

VERSION: Final = 1
_FILES: Final = f"claim-{'[0-9]' * 12}.json"


class ClaimError(SharegroupError):
    """A claim cannot be written or read: the disk is full or fails."""


class Claim(NamedTuple):
    """Records that are, or are about to be, accepted at the broker and belong to this query."""

    number: int
    topics: Mapping[UUID, str]
    """Topic id → name, of all topics in ``ranges``."""
    ranges: Ranges


class ClaimFolder:
    """See the module. Not thread-safe; every method may wait for the disk.

    Args:
        location: the folder; made when it is missing.
        group_id: the source's share group.
    """

    def __init__(self, location: str, group_id: str) -> None:
        self.id = ""
        """The folder's own id; known when it is open."""
        self.next = 1
        """The number of the claim that is written next."""
        self._folder = Path(location)
        self._group_id = group_id
        self._lock: IO[str] | None = None
        self._kept: ClaimPosition | None = None

    def __str__(self) -> str:
        return str(self._folder)

    def try_lock(self) -> bool:
        """Try to lock the folder until :meth:`close`, or until the process ends in any way; return
        whether this source has the lock.

        Raises:
            ConfigError: the folder cannot be made or written.
        """
        if self._lock is not None:
            return True
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = (self._folder / "lock").open("a+")
        except OSError as error:
            raise ConfigError(
                f"claimLocation {self._folder} cannot be used: {error}; write a folder that the "
                "driver may write to"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._lock = file
        return True

    def holder(self) -> str:
        """The process that has the lock, as text for people."""
        return (self._folder / "lock").read_text().strip() or "unknown"

    def open(self, position: ClaimPosition | None) -> list[Claim]:
        """The claims from ``position`` on, ascending: Spark does not have them, or not all their
        records. Needs the lock.

        Args:
            position: the position in the newest offset; None: there is no offset yet.

        Raises:
            ConfigError: the folder belongs to another checkpoint or group, or claims are missing.
            ClaimError: the disk fails.
        """
        assert self._lock is not None, "not locked"
        try:
            self._identify(position)
            for scratch in self._folder.glob(".claim-*"):  # half-written: nothing was accepted
                scratch.unlink()
            claims = {claim.number: claim for path in self._files() if (claim := self._read(path))}
            found, said = self._numbers(), self._said()
        except OSError as error:
            raise ClaimError(f"claimLocation {self._folder} cannot be read: {error}") from error
        self._refuse_missing(position, found, said)
        begin = 1 if position is None else position.number
        self.next = max((*found, begin - 1, said.last)) + 1
        return [claims[number] for number in sorted(claims) if number >= begin]

    def write(self, topics: Mapping[UUID, str], ranges: Ranges) -> Claim:
        """Write one claim. When this returns the claim is durable, also after a power cut.

        Raises:
            ClaimError: writing failed; the claim may still be there after a restart.
        """
        claim = Claim(self.next, topics, ranges)
        content = BatchOffset(
            sequence=claim.number, group_id=self._group_id, topics=topics, ranges=ranges
        )
        text = json.dumps(to_json(content), separators=(",", ":"))
        try:
            self._put(
                _name(claim.number),
                f"{text}\n{crc32c(text.encode()):08x}\n",
                beside=lambda: kept_claims.written(self._folder, claim.number),
            )
        except OSError as error:
            raise ClaimError(
                f"claimLocation {self._folder} cannot be written: {error}; records that are not in "
                "it are not accepted"
            ) from error
        self.next += 1
        return claim

    def settled(self, position: ClaimPosition) -> None:
        """Spark has committed the batch that ends at ``position``: delete the claims of the batches
        before it. Spark never asks for these again, even if it loses the newest offset.

        Raises:
            ClaimError: the disk fails.
        """
        kept, self._kept = self._kept, position
        if kept is None or kept.number == position.number:
            return
        try:
            kept_claims.deleted_before(self._folder, kept.number)
            for path in self._files():
                if _number(path) < kept.number:
                    path.unlink()
        except OSError as error:
            raise ClaimError(f"claimLocation {self._folder}: {error}") from error

    def close(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # --- inside -----------------------------------------------------------------------------------

    def _identify(self, position: ClaimPosition | None) -> None:
        path = self._folder / "folder.json"
        known: dict[str, Any] = {"v": VERSION, "id": secrets.token_hex(8), "group": self._group_id}
        if path.exists():
            known = _identity(path)
        elif position is None:
            self._said()
            self._put(path.name, json.dumps({**known, "kept": True}))
        if known["group"] != self._group_id:
            raise ConfigError(
                f"claimLocation {self._folder} is of the group {known['group']}, the query reads "
                f"from {self._group_id}: give each query a folder of its own"
            )
        self.id = known["id"]
        if known.get("kept") and kept_claims.read(self._folder) is None:
            raise ConfigError(
                f"claimLocation {self._folder} lacks its file kept-…, which says which claims must "
                "be here: put all files of the folder back. Where they are lost, their records are "
                "lost too: go on with a new checkpointLocation and an empty claimLocation"
            )
        if position is not None and position.folder != self.id:
            raise ConfigError(
                f"claimLocation {self._folder} is not the folder that the checkpoint was written "
                "with: give that one. Where it is lost, its records that were in no batch yet are "
                "lost too: go on with a new checkpointLocation and an empty claimLocation"
            )

    def _refuse_missing(
        self, position: ClaimPosition | None, found: AbstractSet[int], said: KeptClaims
    ) -> None:
        """Raises ConfigError: a claim is missing whose records are in no batch, or may be in no
        batch."""
        missing = kept_claims.missing(position, found, said)
        if not missing:
            return
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise ConfigError(
            f"claimLocation {self._folder} lacks {_name(min(missing))}{others}: files were "
            "deleted, or an old copy was put back. Put all files of the folder back; where one is "
            "lost, its records are lost too, unless a batch had them: to go on without them, make "
            "an empty file of its name"
        )

    def _said(self) -> KeptClaims:
        """The claims that the folder must hold, by its own file. A folder that is new, or was begun
        by an earlier version, gets that file now, and it names the claims that are there."""
        said = kept_claims.read(self._folder)
        if said is None:
            numbers = self._numbers()
            said = KeptClaims(min(numbers, default=1), max(numbers, default=0))
            self._put(said.name, "")
        return said

    def _numbers(self) -> AbstractSet[int]:
        """The claims that are here, damaged ones among them."""
        return {_number(path) for path in (*self._files(), *self._folder.glob(f"damaged/{_FILES}"))}

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(_FILES))

    def _read(self, path: Path) -> Claim | None:
        """The claim, or None if it is damaged: then the file is moved aside."""
        data = path.read_bytes()
        try:
            return _parsed(data, _number(path))
        except (ValueError, KeyError, AttributeError, TypeError, ConfigError) as error:
            aside = self._folder / "damaged"
            aside.mkdir(exist_ok=True)
            path.rename(aside / path.name)
            _sync(aside)
            _sync(self._folder)
            log.error(
                "%s is damaged (%s) and was put aside as %s: its records are accepted at the "
                "broker and will not be delivered to this query, unless they were before; the "
                "claims before and after it tell between which offsets they lie",
                path,
                error,
                aside / path.name,
            )
            return None

    def _put(self, name: str, text: str, beside: Callable[[], None] | None = None) -> None:
        """Write the file atomically, and sync it so that it survives a power cut; ``beside``
        changes names in the folder, which are synced with it.
        """
        scratch = self._folder / f".{name}"
        with scratch.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(self._folder / name)
        if beside is not None:
            beside()
        _sync(self._folder)


def _identity(path: Path) -> dict[str, Any]:
    try:
        known: dict[str, Any] = json.loads(path.read_text())
        if known["v"] != VERSION or not known["id"] or not known["group"]:
            raise ValueError(f"it is {known}")
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is damaged ({error}): put it back from a copy") from error
    return known


def _parsed(data: bytes, number: int) -> Claim:
    """The claim in ``data``. Raises one of several errors if the content is not valid."""
    line, _, rest = data.partition(b"\n")
    if not rest.endswith(b"\n"):
        raise ValueError(f"it ends after {len(data)} bytes")
    if int(rest, 16) != crc32c(line):
        raise ValueError("its checksum is wrong")
    content = from_json(json.loads(line))
    if content.sequence != number:
        raise ValueError(f"it is claim {content.sequence}")
    return Claim(number, content.topics, content.ranges)


def _name(number: int) -> str:
    return f"claim-{number:012d}.json"


def _number(path: Path) -> int:
    return int(path.stem.split("-")[1])


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
