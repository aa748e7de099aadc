"""Handles one request of a client that may have quotas. The request is answered at once; then its
connection is muted for the throttle time, which the answer tells the client (KIP-219)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from sharegroup.broker.network.outgoing import Chunk
from sharegroup.broker.quotas import Quotas, Timed
from sharegroup.broker.request_context import RequestContext


class Muted(Protocol):
    """A connection, as this module sees it."""

    def mute(self, seconds: float) -> None:
        """Start no request for this long."""
        ...


class WithinQuotas:
    """Handles a request of the API ``key``, whose frame has ``request_bytes``.

    Args:
        now_s: a clock.
        started_s: the clock's time when the request began.
    """

    def __init__(
        self,
        quotas: Quotas,
        key: int,
        request_bytes: int,
        context: RequestContext,
        now_s: Callable[[], float],
        started_s: float,
    ) -> None:
        self._quotas = quotas
        self._key = key
        self._request_bytes = request_bytes
        self._principal = context.access.principal
        self._client_id = context.client_id
        self._unlimited = context.answer_bytes_max
        self._now_s = now_s
        self._started_s = started_s
        self._mutations = quotas.mutations(key, context.version, self._principal, self._client_id)
        self.context = context._replace(
            answer_bytes_max=self._answer_bytes_max, mutations=self._mutations
        )
        """The context that the handler gets."""

    async def answer(
        self,
        connection: Muted,
        work: Coroutine[Any, Any, Any],
        encode: Callable[[Any], Sequence[Chunk]],
    ) -> Sequence[Chunk]:
        """The encoded response of the handler's ``work``; empty without one (acks=0)."""
        timed = Timed(work, self._now_s)
        seconds = self._now_s() - self._started_s
        response = await timed
        handled_s = self._now_s()
        frames = encode(response)
        seconds += timed.seconds + self._now_s() - handled_s
        throttle_ms = self._throttle_ms(seconds, sum(map(len, frames)), response is not None)
        if throttle_ms:
            connection.mute(throttle_ms / 1000)
            if hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = throttle_ms
                frames = encode(response)
        return frames

    def _throttle_ms(self, seconds: float, answer_bytes: int, answered: bool) -> int:
        """The longest throttle time of all quotas, as in Kafka."""
        who = (self._principal, self._client_id)
        by_bytes = self._quotas.request(self._key, *who, self._request_bytes, answer_bytes)
        by_time = self._quotas.time(self._key, *who, seconds, answered=answered)
        return max(by_bytes, by_time, self._quotas.mutated(self._mutations))

    def _answer_bytes_max(self) -> int:
        left = self._quotas.answer_bytes_max(self._principal, self._client_id)
        return min(self._unlimited(), left)
