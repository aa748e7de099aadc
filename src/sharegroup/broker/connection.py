"""One client connection: bytes to frames, frames to handlers, answers back in the order of the
requests.

Requests are started in order and may overlap (a produce that waits for its fsync does not hold up
the next); answers leave in order. Reading pauses while too many requests are open or the peer does
not read its answers. Of the requests whose answers carry records one at a time is handled, and only
when the answers before it are on their way: a peer that asks and does not read costs one large
answer, not a hundred.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, cast

from sharegroup.broker.api_table import CARRIES_RECORDS
from sharegroup.model.errors import MalformedMessage
from sharegroup.model.limits import IN_FLIGHT_REQUESTS_MAX
from sharegroup.wire.framing import FrameSplitter

if TYPE_CHECKING:
    from sharegroup.broker.connections import Connections
    from sharegroup.broker.dispatch import Dispatcher
    from sharegroup.broker.endpoint import Endpoint

logger = logging.getLogger("sharegroup.broker")

OPEN_REQUESTS_PAUSE = 100
"""Above this many open requests the socket is not read until half of them are answered (Kafka reads
one at a time)."""

assert OPEN_REQUESTS_PAUSE < IN_FLIGHT_REQUESTS_MAX


class _Slot:
    """The place of one request's answer in the order of answers."""

    __slots__ = ("chunks",)

    def __init__(self) -> None:
        self.chunks: list[bytes] | None = None


class BrokerConnection(asyncio.Protocol):
    """The asyncio protocol of one accepted socket.

    ``host`` is the peer's address; ``access`` what it may do.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        connections: Connections,
        endpoint: Endpoint,
        frame_bytes_max: int,
    ) -> None:
        self._dispatcher = dispatcher
        self._connections = connections
        self._splitter = FrameSplitter(frame_bytes_max)
        self._slots: deque[_Slot] = deque()
        self._records_slot: _Slot | None = None
        self._held: deque[tuple[bytes, _Slot]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport | None = None
        self._reading = True
        self._peer_slow = False
        self._active_s = 0.0
        self._loop = asyncio.get_running_loop()
        self.endpoint = endpoint
        self.host = ""
        self.access = dispatcher.access(endpoint, "")

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka writes it in descriptions of groups."""
        return f"/{self.host}" if self.host else ""

    @property
    def open_requests(self) -> int:
        """Requests read and not yet answered."""
        return len(self._slots)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer connected."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = peer[0] if peer else ""
        self._active_s = self._loop.time()
        if self._connections.admit(self):
            self.access = self._dispatcher.access(self.endpoint, self.host)
        else:
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """The peer is gone.

        What runs is left to end: a change that is half-way to the log must get there.
        """
        self._transport = None
        self._held.clear()
        self._connections.gone(self)

    def data_received(self, data: bytes) -> None:
        """Start a handler for each whole frame."""
        self._active_s = self._loop.time()
        try:
            for frame in self._splitter.feed(data):
                self._take(frame)
        except MalformedMessage as error:
            self._dispatcher.malformed(self, error)
            self.close()
        if len(self._slots) > OPEN_REQUESTS_PAUSE:
            self._pause()

    def pause_writing(self) -> None:
        """The peer does not read: do not read from it either."""
        self._peer_slow = True
        self._pause()

    def resume_writing(self) -> None:
        """The peer has caught up."""
        self._peer_slow = False
        self._active_s = self._loop.time()
        self._start_held()
        if len(self._slots) < OPEN_REQUESTS_PAUSE // 2:
            self._resume()

    def idle_since(self, before: float) -> bool:
        """Whether nothing has happened since the loop time ``before``: no request came and none is
        open, or the peer does not read its answers."""
        return self._active_s <= before and (not self._slots or self._peer_slow)

    async def idle(self, seconds: float) -> None:
        """Return when no request is open, or after ``seconds``."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=max(0.0, seconds))

    def close(self) -> None:
        """Send what is ready, then close."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; what is not sent yet is lost."""
        if self._transport is not None:
            self._transport.abort()

    def _take(self, frame: bytes) -> None:
        """Give a frame its place in the order of answers, and start it when it may."""
        slot = _Slot()
        self._slots.append(slot)
        if frame[:2] not in CARRIES_RECORDS:
            self._start(frame, slot)
        elif self._records_slot is None and not self._peer_slow:
            self._records_slot = slot
            self._start(frame, slot)
        else:
            self._held.append((frame, slot))

    def _start_held(self) -> None:
        if self._held and self._records_slot is None and not self._peer_slow:
            frame, self._records_slot = self._held.popleft()
            self._start(frame, self._records_slot)

    def _start(self, frame: bytes, slot: _Slot) -> None:
        task = self._loop.create_task(self._answer(frame, slot))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, frame: bytes, slot: _Slot) -> None:
        try:
            slot.chunks = await self._dispatcher.answer(self, frame)
        except MalformedMessage as error:
            self._dispatcher.malformed(self, error)
            self.close()
            return
        except (OSError, MemoryError) as error:  # else all answers behind this one would wait
            logger.error("closing the connection from %s: %s", self.client_host, error)
            self.abort()
            return
        self._send_ready()

    def _send_ready(self) -> None:
        ready: list[bytes] = []
        while self._slots and self._slots[0].chunks is not None:
            slot = self._slots.popleft()
            ready += slot.chunks or ()
            if slot is self._records_slot:
                self._records_slot = None
        if ready and self._transport is not None:
            self._transport.writelines(ready)
        self._start_held()
        if not self._reading and len(self._slots) < OPEN_REQUESTS_PAUSE // 2:
            self._resume()

    def _pause(self) -> None:
        if self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _resume(self) -> None:
        if not self._reading and not self._peer_slow and self._transport is not None:
            self._reading = True
            self._transport.resume_reading()
