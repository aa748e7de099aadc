"""Classifies disk errors, logs them, and knows when the folder takes no appends.

* **Full**: there is no room. The request is refused, and can be retried when there is room again.
* **Transient**: the process or the machine is short of something other than room (descriptors,
  memory, threads). The request is refused and may be sent again.
* **Broken**: the disk or its contents cannot be trusted. The partition is out of service.

A write refused because of a lack leaves its partition in service and leaves nothing half-written.
Each kind of lack is logged once per episode, and counted.
"""

from __future__ import annotations

import errno
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Final, Protocol

from sharegroup.model.environment import Clock, Disk, DiskFile
from sharegroup.model.errors import KafkaError, KafkaStorageError, NotLeaderOrFollower
from sharegroup.model.ids import TopicPartition

logger = logging.getLogger(__name__)


class Lack(StrEnum):
    """The resource that is lacking."""

    ROOM = "room"
    DESCRIPTORS = "descriptors"
    MEMORY = "memory"


_LACKS: Final = {
    errno.ENOSPC: Lack.ROOM,
    errno.EDQUOT: Lack.ROOM,
    errno.EFBIG: Lack.ROOM,  # RLIMIT_FSIZE: segments are far smaller than the file system's limit
    errno.EMFILE: Lack.DESCRIPTORS,
    errno.ENFILE: Lack.DESCRIPTORS,
    errno.ENOMEM: Lack.MEMORY,
    errno.ENOBUFS: Lack.MEMORY,
    errno.EAGAIN: Lack.MEMORY,  # also: a thread cannot be started
    errno.EINTR: Lack.MEMORY,
    errno.ENOLCK: Lack.MEMORY,
}

EPISODE_MS: Final = 60_000
"""A lack is logged again if it returns after this time without one."""


def lack_of(error: OSError) -> Lack | None:
    """The resource that was lacking, by the error; None when the disk itself has failed."""
    return _LACKS.get(error.errno) if error.errno is not None else None


class Failing(Protocol):
    """A log that can be taken out of service."""

    topic_partition: TopicPartition

    def fail(self, error: KafkaError) -> None:
        """Take the log out of service."""
        ...


def remove_half_made(disk: Disk, files: Sequence[DiskFile]) -> None:
    """Close and remove files that could not be written completely. A file that cannot be removed
    either is overwritten by the next attempt.
    """
    for file in files:
        file.close()
        with suppress(OSError):
            disk.remove(file.path)


class DiskFailures:
    """Counts and logs the operations that the disk of one data folder refused."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_ms: dict[Lack, int] = {}
        self.refused: Counter[Lack] = Counter()
        """How many operations failed for lack of each resource; they can be retried."""
        self.stopping = False
        """Whether the folder is being closed: nothing is appended any more."""

    def check_appends(self) -> None:
        """Raise NotLeaderOrFollower if the folder is being closed."""
        if self.stopping:
            raise NotLeaderOrFollower("the broker is shutting down")

    def refusal(self, what: str, error: OSError) -> KafkaStorageError | None:
        """The error for the caller that asked for ``what``, if a retry may help; None if the disk
        has failed.
        """
        lack = lack_of(error)
        if lack is None:
            return None
        self._say(lack, what, error)
        return KafkaStorageError(f"{what}: {error.strerror}")

    def of_log(self, log: Failing, error: OSError) -> KafkaStorageError:
        """The error for the caller of a log. If a resource was lacking, only this call is refused;
        any other error takes the log out of service.
        """
        what = str(log.topic_partition)
        refusal = self.refusal(what, error)
        if refusal is None:
            refusal = KafkaStorageError(f"{what}: {error}")
            log.fail(refusal)
        return refusal

    @contextmanager
    def answered(self, what: str) -> Iterator[None]:
        """Turn every OSError in the block into a KafkaStorageError."""
        try:
            yield
        except OSError as error:
            raise self.refusal(what, error) or self.failed(what, error) from error

    def failed(self, what: str, error: OSError) -> KafkaStorageError:
        """The error for the caller if the disk has failed; logs it."""
        logger.error("%s: %s", what, error)
        return KafkaStorageError(f"{what}: {error.strerror}")

    def _say(self, lack: Lack, what: str, error: OSError) -> None:
        self.refused[lack] += 1
        now_ms = self._clock.monotonic_ms()
        last_ms = self._last_ms.get(lack)
        self._last_ms[lack] = now_ms
        if last_ms is None or now_ms - last_ms >= EPISODE_MS:
            logger.error(
                "%s is refused for lack of %s: %s (further refusals are only counted)",
                what,
                lack,
                error.strerror,
            )
