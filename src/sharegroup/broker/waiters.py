"""Fetches that wait: for new data, for released records, for room in a window.

A waiting fetch watches its partitions and looks again each time one of them is woken. Kafka calls
this a purgatory of delayed operations. Ours stores no operations, only waiters to wake.

Plain fetches are all woken, for all get the same records. The share fetches of one group stand in
line, for only one of them gets a record: an *offer* wakes the first of each line. A fetch that has
looked and left records passes the offer on to the next, so that a record among a hundred waiting
members costs one look, and each of a hundred records still finds its member.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from types import TracebackType

from sharegroup.model.ids import TopicIdPartition
from sharegroup.model.log import ReadableLog


class Waiter:
    """One waiting fetch.

    A wake between two looks is not lost: the next :meth:`wait` returns at once.
    """

    __slots__ = (
        "_future", "_waiters", "_woken", "connection", "keys", "line", "offered", "offers",
    )  # fmt: skip

    def __init__(
        self,
        waiters: FetchWaiters,
        keys: tuple[TopicIdPartition, ...],
        connection: object,
        line: str | None,
    ) -> None:
        self._waiters = waiters
        self.keys = keys
        self.connection = connection
        self.line = line
        """The group whose share fetches stand in line; None for a fetch that every change wakes."""
        self.offers: dict[TopicIdPartition, int] = {}
        """Partition → the number of the offer that the fetch has got and not yet passed on."""
        self.offered: dict[TopicIdPartition, int] = {}
        """Partition → the number of the last offer that the fetch has got."""
        self._woken = False
        self._future: asyncio.Future[None] | None = None

    def __enter__(self) -> Waiter:
        self._waiters.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._waiters.remove(self)
        self.pass_on()  # the offers of partitions that it did not look at

    def pass_on(self, is_left: Callable[[TopicIdPartition], bool] | None = None) -> None:
        """The fetch has looked: pass its offers on to the next in line, for the partitions where
        something is left."""
        while self.offers:
            key, number = self.offers.popitem()
            if is_left is None or is_left(key):
                self._waiters.pass_on(key, self.line, number)

    def wake(self) -> None:
        """Something may have changed: look again."""
        self._woken = True
        if self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def wait(self, until: float) -> None:
        """Return when woken, or at the loop time ``until``; always yields to other tasks once."""
        loop = asyncio.get_running_loop()
        if self._woken or until <= loop.time():
            await asyncio.sleep(0)
        else:
            self._future = loop.create_future()
            timer = loop.call_at(until, self.wake)
            try:
                await self._future
            finally:
                timer.cancel()
                self._future = None
        self._woken = False


Line = OrderedDict[Waiter, None]
"""Waiting fetches; the fetch that got the last offer is at the end."""


class FetchWaiters:
    """All waiting fetches, by partition and by the connection that asked."""

    def __init__(self) -> None:
        self._lines: dict[TopicIdPartition, dict[str | None, Line]] = {}
        self._by_connection: dict[object, set[Waiter]] = {}
        self.changes = 0
        """How often fetches were woken or offered something. A fetch may wait if this number is the
        same as before it looked."""
        self.closed = False
        """Whether the broker is stopping: fetches answer with what there is."""

    def __len__(self) -> int:
        """How many fetches wait."""
        return sum(map(len, self._by_connection.values()))

    def watch(
        self, keys: Iterable[TopicIdPartition], connection: object, line: str | None = None
    ) -> Waiter:
        """A context manager that watches ``keys`` while it is entered; with ``line`` it stands in
        the line of that group. Without keys it is woken only by :meth:`wake_connection`,
        :meth:`wake_all` and :meth:`close`."""
        return Waiter(self, tuple(dict.fromkeys(keys)), connection, line)

    def add(self, waiter: Waiter) -> None:
        """Start waking ``waiter``."""
        self._by_connection.setdefault(waiter.connection, set()).add(waiter)
        for key in waiter.keys:
            lines = self._lines.setdefault(key, {})
            lines.setdefault(waiter.line, OrderedDict())[waiter] = None

    def remove(self, waiter: Waiter) -> None:
        """Stop waking ``waiter``."""
        of_connection = self._by_connection[waiter.connection]
        of_connection.discard(waiter)
        if not of_connection:
            del self._by_connection[waiter.connection]
        for key in waiter.keys:
            lines = self._lines[key]
            line = lines[waiter.line]
            del line[waiter]
            if not line:
                del lines[waiter.line]
            if not lines:
                del self._lines[key]

    def follow(self, log: ReadableLog) -> None:
        """Let a log learn of what comes, as long as fetches watch it."""
        key = TopicIdPartition(log.topic_id, log.topic_partition.partition)
        log.follow(lambda: key in self._lines)

    def wake(self, key: TopicIdPartition) -> None:
        """Let every fetch that watches ``key`` look again."""
        self.changes += 1
        for line in self._lines.get(key, {}).values():
            for waiter in line:
                waiter.wake()

    def offer(self, key: TopicIdPartition) -> None:
        """There may be new records: plain fetches of ``key`` look again, and one of each group."""
        self.changes += 1
        for name, line in self._lines.get(key, {}).items():
            if name is None:
                for waiter in line:
                    waiter.wake()
            else:
                _offer_to_first(key, line, self.changes)

    def offer_to(self, group_id: str, key: TopicIdPartition) -> None:
        """There may be records for the group: let one of its share fetches look again."""
        self.changes += 1
        self.pass_on(key, group_id, self.changes)

    def pass_on(self, key: TopicIdPartition, line: str | None, number: int) -> None:
        """Give the offer ``number`` to the first in line, unless it has got this offer or a later
        one."""
        waiting = self._lines.get(key, {}).get(line)
        if waiting is not None:
            _offer_to_first(key, waiting, number)

    def wake_all(self) -> None:
        """Let all waiting fetches look again."""
        self.changes += 1
        for waiting in list(self._by_connection.values()):
            for waiter in tuple(waiting):
                waiter.wake()

    def close(self) -> None:
        """The broker stops: no fetch waits from now on."""
        self.closed = True
        self.wake_all()

    def wake_connection(self, connection: object) -> None:
        """Let the fetches of a connection look again: it is closed, or its session has ended."""
        self.changes += 1
        for waiter in tuple(self._by_connection.get(connection, ())):
            waiter.wake()


def _offer_to_first(key: TopicIdPartition, line: Line, number: int) -> None:
    """Give an offer to the first in line, which has waited longest since its last offer. If it has
    got this offer or a later one, all fetches in the line have: each of them looks after this offer
    was made."""
    waiter = next(iter(line))
    if waiter.offered.get(key, 0) < number:
        waiter.offered[key] = waiter.offers[key] = number
        line.move_to_end(waiter)
        waiter.wake()
