"""One client connection: splits bytes into frames, starts handlers, and sends answers in request
order.

Requests are started in order and may overlap: a produce that waits for its fsync does not delay the
next request. Answers leave in order. Received bytes are split into requests when the connection has
its turn (``request_scheduler``), a few at a time. Reading pauses in five cases: received bytes are
not split yet, too many requests are open, the peer does not read its answers, memory is short
(``request_memory``), or a quota of the client is used up (``mute``). Requests whose answers carry
records are handled one at a time, and nothing is started for a peer that does not read. So a peer
that asks and does not read costs one large answer, not a hundred.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, TypeVar, cast

from sharegroup.broker.network.api_table import CARRIES_RECORDS
from sharegroup.broker.network.connections import Connections
from sharegroup.broker.network.dispatch import Dispatcher
from sharegroup.broker.network.endpoint import Endpoint
from sharegroup.broker.network.frame_lengths import FrameLengths
from sharegroup.broker.network.outgoing import Chunk, OutgoingChunks, Slot
from sharegroup.broker.network.sasl_session import SaslSession
from sharegroup.broker.read_model.connections import ConnectionView
from sharegroup.model.errors import MalformedMessage, NoAnswerWanted
from sharegroup.model.limits import (
    ANSWERS_AHEAD_BYTES_MAX,
    OPEN_BYTES_MAX,
    OPEN_REQUESTS_MAX,
    TURN_BYTES,
    TURN_RECORD_BYTES,
    WRITE_BYTES,
)
from sharegroup.wire import apis
from sharegroup.wire.framing import FrameSplitter

_T = TypeVar("_T")

_PRODUCE: Final = apis.PRODUCE.key.to_bytes(2, "big")


class BrokerConnection(asyncio.Protocol):
    """The asyncio protocol of one accepted socket.

    ``host`` is the peer's address, ``principal`` who it is, ``access`` its access rights.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        connections: Connections[BrokerConnection],
        endpoint: Endpoint,
        frame_bytes_max: int,
        sasl: SaslSession | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._connections = connections
        self._turns = connections.turns
        self._requests = connections.requests
        self._answers = connections.answers
        self.sasl = sasl
        self._lengths = FrameLengths(frame_bytes_max, connections.first_bytes_max, sasl)
        self._splitter = FrameSplitter(self._lengths.most(), self._lengths.check)
        self._slots: deque[Slot] = deque()
        self._records_slot: Slot | None = None
        self._held: deque[tuple[bytes, Slot]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport | None = None
        self._closing = False
        self._stopping = self._ended = False  # received bytes are dropped; our end is sent
        self._reading = True
        self._peer_slow = False
        self._full = False  # many requests are open: start no more until half are answered
        self._waits_for_room = False
        self._running_bytes = 0
        self._ready_bytes = 0
        self._sent_bytes = 0
        self._leaving = OutgoingChunks()
        self._paused = False  # the socket takes no more bytes
        self._active_s = 0.0
        self._muted: asyncio.TimerHandle | None = None  # ends the throttle time of a quota
        self._loop = asyncio.get_running_loop()
        self.held_bytes = 0
        self.moved_bytes = 0
        self.claimed = False
        self.modest = True
        self.blocked_s = 0.0
        self.blocked_read_bytes = 0
        self.endpoint = endpoint
        self.host = ""
        self.principal = endpoint.principal
        self.access = dispatcher.access(self.principal, "")

    @property
    def authenticated(self) -> bool:
        """Whether the client is known, or the listener asks for no login."""
        return self.sasl is None or self.sasl.authenticated

    @property
    def client_host(self) -> str:
        """The peer's address as Kafka writes it in descriptions of groups."""
        return f"/{self.host}" if self.host else ""

    @property
    def open_requests(self) -> int:
        """Requests read and not yet answered."""
        return len(self._slots)

    @property
    def unread_bytes(self) -> int:
        """Bytes of answers that are ready and that the peer has not read."""
        written = self._transport.get_write_buffer_size() if self._transport is not None else 0
        return self._ready_bytes + self._leaving.size + written

    @property
    def read_bytes(self) -> int:
        """Bytes of answers that the peer has read."""
        return self._sent_bytes - self.unread_bytes + self._ready_bytes

    def view(self) -> ConnectionView:
        """What the connection looks like now."""
        return ConnectionView(
            host=self.host,
            listener=self.endpoint.name,
            principal=self.principal,
            open_requests=self.open_requests,
            request_bytes=self.held_bytes,
            unread_bytes=self.unread_bytes,
        )

    def answer_bytes_max(self) -> int:
        """How many bytes of records the next answer may have."""
        return self._answers.allowance(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A peer connected."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.host = peer[0] if peer else ""
        self._active_s = self._loop.time()
        if self._connections.admit(self) and self._knows_certificate(transport):
            self.access = self._dispatcher.access(self.principal, self.host)
            if self.sasl is not None:
                self.sasl.host = self.host
                self.sasl.left = lambda: self._closing
            self._adjust_reading()
            self._begin_in_turn()
        else:
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """The peer is gone.

        Running requests are not cancelled: a change that is half-way to the log must get there.
        """
        self._transport = None
        self._closing = True
        self._stop_muting()
        self._held.clear()
        self._answers.caught_up(self)
        self._drop_received()
        self._connections.gone(self)

    def data_received(self, data: bytes) -> None:
        """Buffer the bytes, and queue for a turn if they may hold a request."""
        self._active_s, size = self._loop.time(), len(data)
        self.moved_bytes += size
        if self._stopping:
            return
        if self.claimed:
            size -= min(self._splitter.missing, size)  # for these bytes room is reserved
        self._requests.count(self, size)
        self._splitter.add(data)
        self._turns.enter(self)
        if self._splitter.pending or self._waits_for_room or self._full or self._requests.full:
            self._adjust_reading()

    def pause_writing(self) -> None:
        """The peer does not read its answers: stop reading from it."""
        self._paused = True
        self._fall_behind()

    def resume_writing(self) -> None:
        """The peer has read what was written."""
        self._paused = False
        self._active_s = self._loop.time()
        if self._leaving:
            self._write()
        else:
            self._catch_up()

    def may_read_again(self) -> None:
        """Resume reading if possible: the memory for requests has room again."""
        if self.claimed:
            self._waits_for_room = False
        self._adjust_reading()

    @property
    def wants_turn(self) -> bool:
        """Whether received bytes may hold a request that may be started now."""
        return (
            self._splitter.pending
            and not (self._closing or self._full or self._peer_slow or self._muted)
            and not (self.sasl is not None and self.sasl.busy)
            and self._ready_bytes < ANSWERS_AHEAD_BYTES_MAX
        )

    def take_turn(self) -> int:
        """Start the next request; a large one counts for several."""
        if not self.wants_turn:
            return 0
        try:
            frame = self._splitter.next_frame()
        except MalformedMessage as error:
            self._dispatcher.malformed(self, error)
            self.close()
            return 1
        if frame is not None:
            self.claimed = False
            self._take(frame)
        if self._splitter.missing:
            self._claim_room()
        if not (self._reading or self._splitter.pending):
            self._adjust_reading()  # all received bytes are split: do not wait for an answer
        if frame is None:
            return 0
        return 1 + len(frame) // (TURN_RECORD_BYTES if frame[:2] == _PRODUCE else TURN_BYTES)

    def mute(self, seconds: float) -> None:
        """Start no request and read none for this long: a quota is used up. Requests that have
        begun are answered; one that is half read is read on, since room is kept for it."""
        if self._transport is None or self._closing or self._stopping:
            return
        until_s = self._loop.time() + seconds
        if self._muted is None or self._muted.when() < until_s:
            self._stop_muting()
            self._muted = self._loop.call_at(until_s, self._unmute)
            self._adjust_reading()

    def idle_since(self, before: float) -> bool:
        """Whether the connection is idle since the loop time ``before``: no bytes came, and either
        no request is open or the peer does not read its answers."""
        return self._active_s <= before and (not self._slots or self._peer_slow)

    def stop(self) -> None:
        """The broker stops: answer the requests that have begun, and drop all others. Reading goes
        on: closing a socket with unread bytes would destroy the answers that are on their way.
        """
        self._stopping = True
        self._stop_muting()
        self._drop_received()
        self._start_held()
        self._adjust_reading()

    async def idle(self, until_s: float) -> None:
        """Return when no request runs, or at the loop time ``until_s``."""
        while self._tasks and self._loop.time() < until_s:
            await asyncio.wait(self._tasks, timeout=until_s - self._loop.time())

    def end(self) -> None:
        """Send what is ready and then the end, and wait for the peer to close."""
        self._closing = True
        self._write()
        if self._transport is None or not self._transport.can_write_eof():
            self.close()
        elif not self._transport.is_closing():
            self._ended = True
            self._transport.write_eof()

    def close(self) -> None:
        """Send what is ready, then close."""
        self._closing = True
        if self._transport is not None:
            self._write()
            self._transport.close()

    def abort(self) -> None:
        """Close at once; unsent answers are lost."""
        self._closing = True
        self._leaving.clear()
        if self._transport is not None:
            self._transport.abort()

    def _begin_in_turn(self) -> None:
        """Hold back a connection that was made too soon after others (Kafka class
        ConnectionQuotas)."""
        admission = self._dispatcher.admission(self.host)
        if not admission.wait_ms:
            return
        self.mute(admission.wait_ms / 1000)
        if admission.refused:
            self._closing = True  # its bytes are never looked at
            self._loop.call_later(admission.wait_ms / 1000, self.abort)

    def _unmute(self) -> None:
        self._muted = None
        self._go_on()

    def _stop_muting(self) -> None:
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None

    def _drop_received(self) -> None:
        """Forget received bytes, except those of requests that have begun."""
        self._splitter.clear()
        self._requests.forget(self)
        self._requests.count(self, self._running_bytes - self.held_bytes)

    def _claim_room(self) -> None:
        """Reserve memory for the rest of an unfinished request."""
        missing = self._splitter.missing
        if missing and not (self.claimed or self._waits_for_room):
            self._waits_for_room = not self._requests.claim(self, missing)
            self._adjust_reading()

    def _take(self, frame: bytes) -> None:
        """Queue a slot for the frame's answer, and start the request if it may start now."""
        slot = Slot(frame)
        self._slots.append(slot)
        if self.sasl is not None and self.sasl.takes(frame):
            self.sasl.busy = True
            self._run(self._authenticate(self.sasl, frame, slot), slot)
        elif frame[:2] not in CARRIES_RECORDS:
            self._run(self._turns.owing(self, self._answer(frame, slot)), slot)
        elif self._records_slot is None:
            self._records_slot = slot
            self._run(self._answer(frame, slot), slot)
        else:
            self._held.append((frame, slot))
        if len(self._slots) >= OPEN_REQUESTS_MAX or self._running_bytes >= OPEN_BYTES_MAX:
            self._full = True

    def _start_held(self) -> None:
        may_start = not (self._peer_slow or self._muted)
        if self._held and self._records_slot is None and may_start:
            frame, slot = self._held.popleft()
            self._records_slot = slot
            self._run(self._answer(frame, slot), slot)

    def _run(self, work: Coroutine[Any, Any, None], slot: Slot) -> None:
        self._running_bytes += slot.held_bytes
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, frame: bytes, slot: Slot) -> None:
        work = self._dispatcher.answer(self, frame, partial(self._give_back, slot))
        del frame  # the request may wait for long: what is decoded of it must be the only copy
        chunks = await self._handled(slot, work)
        if chunks is not None:
            self._lengths.answered = True
            self._fill(slot, chunks)

    async def _authenticate(self, sasl: SaslSession, frame: bytes, slot: Slot) -> None:
        """Let the session answer a request. The next request is started after that answer."""
        was = sasl.principal
        other = partial(self._dispatcher.answer, self, frame)
        answer = await self._handled(slot, sasl.answer(frame, other))
        sasl.busy = False
        if answer is None:
            return
        if sasl.principal != was:
            self.principal = sasl.principal
            self.access = self._dispatcher.access(self.principal, self.host)
            self._connections.authenticated(self)
        self._splitter.frame_bytes_max = self._lengths.most()  # a known client may send more
        self._fill(slot, answer.chunks)
        if answer.close:
            self.close()
        else:
            self._go_on()

    def _give_back(self, slot: Slot) -> None:
        """Free the request's room: it is over, or its bytes have become the broker's state."""
        size, slot.held_bytes = slot.held_bytes, 0
        self._running_bytes -= size
        self.moved_bytes += size
        self._requests.count(self, -size)

    async def _handled(self, slot: Slot, work: Awaitable[_T]) -> _T | None:
        """The result of ``work`` on the request of ``slot``; None: the connection is closed."""
        try:
            return await work
        except (MalformedMessage, NoAnswerWanted) as error:
            self._dispatcher.unanswered(self, error)
            self.close()
        except (OSError, MemoryError) as error:  # later answers must not wait for one that fails
            self._dispatcher.out_of_means(self, error)
            self.abort()
        finally:
            self._give_back(slot)
        return None

    def _fill(self, slot: Slot, chunks: Sequence[Chunk]) -> None:
        """An answer is ready: it leaves after all answers before it."""
        slot.chunks = chunks
        if slot is self._slots[0]:
            self._send_ready()
        elif self._transport is not None:  # while it waits, its bytes count as unread
            slot.size = sum(map(len, chunks))
            self._ready_bytes += slot.size
            self._answers.falls_behind(self)

    def _knows_certificate(self, transport: asyncio.BaseTransport) -> bool:
        """Take the principal from the client's certificate. False: no rule makes it a principal."""
        if self.sasl is None:
            principal = self.endpoint.principal_by_certificate(transport)
            if principal is None:
                self._connections.nobody(self.host, self.endpoint.name)
                return False
            self.principal = principal
        return True

    def _send_ready(self) -> None:
        ready: list[Chunk] = []
        while self._slots and self._slots[0].chunks is not None:
            slot = self._slots.popleft()
            ready += slot.chunks or ()
            self._ready_bytes -= slot.size
            if slot is self._records_slot:  # not before: large answers must not pile up in line
                self._records_slot = None
        if ready and self._transport is not None and not self._ended:
            size = sum(map(len, ready))
            self._sent_bytes += size
            if not self._leaving:  # answers that get ready in this loop step leave together
                self._loop.call_soon(self._write)
            self._leaving.add(ready, size)
        self._go_on()

    def _write(self) -> None:
        """Write ready answers with one system call, WRITE_BYTES of them; the rest in later steps,
        as the peer reads on."""
        if self._transport is None or self._ended:
            self._leaving.clear()
            return
        try:  # while closing, all of it: no later step writes
            self._leaving.write(self._transport, None if self._closing else WRITE_BYTES)
        except OSError as error:
            self._dispatcher.out_of_means(self, error)
            self.abort()
            return
        if self._leaving:
            self._fall_behind()
            if not self._paused:
                self._loop.call_soon(self._write)
        elif self._peer_slow and not self._paused:
            self._catch_up()
        if self._peer_slow:
            self._answers.check()
        elif not self._ready_bytes:
            self._answers.caught_up(self)

    def _fall_behind(self) -> None:
        """Ready answers are not written yet: start no request, and read nothing."""
        if not self._peer_slow:
            self._peer_slow = True
            self.blocked_s = self._loop.time()
            self.blocked_read_bytes = self.read_bytes
            self._answers.falls_behind(self)
            self._adjust_reading()

    def _catch_up(self) -> None:
        """All answers are written, and the peer reads them."""
        self._peer_slow = False
        if not self._ready_bytes:
            self._answers.caught_up(self)
        self._go_on()

    def _go_on(self) -> None:
        """An answer has left, or the peer reads again: start requests that were held back."""
        # Not before half of them are answered, so that reading does not pause for each request.
        few, small = len(self._slots) < OPEN_REQUESTS_MAX // 2, OPEN_BYTES_MAX // 2
        if few and self._running_bytes < small:
            self._full = False
        self._start_held()
        if self.wants_turn:
            self._turns.enter(self)
        if not self._reading:
            self._adjust_reading()

    def _adjust_reading(self) -> None:
        """Pause or resume reading: backpressure for the peer. See the module, and :meth:`stop`."""
        if self._transport is None or self._closing:
            return
        wanted = self._stopping or not (
            self._peer_slow
            or self._full
            or self._waits_for_room
            or self._splitter.pending
            or (self._muted and not self.claimed)
            or not self._requests.may_read(self)
        )
        if wanted is not self._reading:
            self._reading = wanted
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()
