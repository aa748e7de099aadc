"""How long the brokers have been silent, and for how long that is put up with."""

from __future__ import annotations

import asyncio
from typing import Final

from sharegroup.client.share_member import ShareMember
from sharegroup.model.errors import NetworkException
from sharegroup.spark.options.stream import ShareOptions

HEARTBEAT_SECONDS: Final = 10.0
"""A broker that only heartbeats are sent to may answer nothing for this long."""
SILENCE_SECONDS: Final = 2.0
"""A broker that is asked all the time and answers nothing for this long is away."""


class Outage:
    """Watches one member: whatever a broker answers to it ends the outage."""

    def __init__(self, member: ShareMember, options: ShareOptions) -> None:
        self._member = member
        self._options = options
        self._since = asyncio.get_running_loop().time()

    @property
    def is_on(self) -> bool:
        """No broker has answered for a while."""
        return self._silent_s() > self._pause_s + SILENCE_SECONDS

    @property
    def _pause_s(self) -> float:
        """How long it may be silent in good health, because nothing is asked or it waits."""
        if not self._member.assignment:
            return HEARTBEAT_SECONDS
        return self._options.poll_timeout_ms / 1000

    def check(self) -> None:
        """Call where something should have been answered.

        Raises:
            NetworkException: it lasts longer than ``brokerOutageTimeout``.
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
