"""Notices another source of the same Spark program that reads the same group.

Somebody who comes from Spark's own Kafka source may use one DataFrame in two queries, join it with
itself, or load the same topic twice. Spark makes a source for each use. With Spark's own Kafka
source each of these sources has all records. Here each is a member of the group, and the group
shares its records out among them. That is what a group is for, so it is no error; but if the user
does not mean it, results are wrong in silence. So a warning says it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
import weakref
from collections.abc import Iterator
from typing import Final

from sharegroup.spark.options.stream import ShareOptions

log = logging.getLogger("sharegroup.spark")

LOOKS: Final = 10
LOOK_SECONDS: Final = 0.5
"""The source of a query that has just been stopped goes on for up to two seconds."""


class SameGroup:
    """Holds a name for each topic of the group, for as long as this process lives: a Unix socket in
    the abstract namespace, which leaves no file behind. Only Linux has this namespace; elsewhere
    nothing is noticed. All sources of a program run on its driver's host, as children of its JVM.
    """

    def __init__(self, options: ShareOptions) -> None:
        self._group_id = options.group_id
        reads = options.topics or (options.topic_pattern or "",)
        self._names = [_name(options.bootstrap_servers, options.group_id, one) for one in reads]
        self._held: list[socket.socket] = []
        # A source whose loop ends without a stop lets go of its names, too.
        self._let_go = weakref.finalize(self, _close_all, self._held)
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Look in the background, and warn if another source has one of the names for long."""
        self._task = asyncio.create_task(self._look(), name="share-same-group")

    def close(self) -> None:
        """Let go of the names. If the run was too short to look to the end, look once more first,
        and warn if it is not alone."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._take()
            self._warn()
        self._let_go()

    async def _look(self) -> None:
        for _ in range(LOOKS):
            self._take()
            if not self._names:
                return
            await asyncio.sleep(LOOK_SECONDS)
        self._warn()

    def _warn(self) -> None:
        if self._names:
            log.warning(
                "another query of this program, or another source of this query (a join of a "
                "DataFrame with itself, a second load()), reads the group %s: each record goes to "
                "one of them, where Spark's own Kafka source gives all records to each. If each is "
                "to have all, give each a load() with a kafka.group.id of its own: see "
                "docs/spark-from-kafka.md",
                self._group_id,
            )

    def _take(self) -> None:
        self._names = list(self._taken())

    def _taken(self) -> Iterator[bytes]:
        for name in self._names:
            one = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                one.bind(name)
            except OSError:
                one.close()
                yield name
            else:
                self._held.append(one)


def _close_all(held: list[socket.socket]) -> None:
    for one in held:
        one.close()


def _name(servers: str, group_id: str, topic: str) -> bytes:
    what = "\0".join((str(os.getppid()), servers, group_id, topic))
    return b"\0sharegroup-" + hashlib.sha256(what.encode()).hexdigest().encode()
