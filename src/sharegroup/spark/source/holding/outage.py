"""Measures how long the brokers have been silent, and raises an error after too long a time."""

from __future__ import annotations

import asyncio
from typing import Final

from sharegroup.client.share.share_member import ShareMember
from sharegroup.model.errors import NetworkException
from sharegroup.spark.options.stream import ShareOptions

HEARTBEAT_SECONDS: Final = 10.0
"""A broker that gets only heartbeats may be silent for this long."""
SILENCE_SECONDS: Final = 2.0
"""A broker that gets requests all the time and is silent for this long is away."""


class Outage:
    """Watches one member: any response of a broker ends the outage."""

    def __init__(self, member: ShareMember, options: ShareOptions) -> None:
        self._member = member
        self._options = options
        self._since = asyncio.get_running_loop().time()

    @property
    def is_on(self) -> bool:
        """Whether no broker has answered for a while."""
        return self._silent_s() > self._pause_s + SILENCE_SECONDS

    @property
    def _pause_s(self) -> float:
        """How long a healthy broker may be silent, because it gets no request, or holds one back to
        wait for records."""
        if not self._member.assignment:
            return HEARTBEAT_SECONDS
        return self._options.poll_timeout_ms / 1000

    def check(self) -> None:
        """Call this when a response should have come.

        Raises:
            NetworkException: the outage lasts longer than ``brokerOutageTimeout``.
        """
        silent_s = self._silent_s()
        if silent_s > self._pause_s + self._options.broker_outage_timeout_ms / 1000:
            raise NetworkException(
                f"no broker of {self._options.bootstrap_servers} has answered for {silent_s:.0f} s "
                "(brokerOutageTimeout): nothing is lost; start the query again when they are back"
            )

    def _silent_s(self) -> float:
        answered_at = self._member.metrics.answered_at
        if answered_at is not None:
            self._since = max(self._since, answered_at)
        return asyncio.get_running_loop().time() - self._since
