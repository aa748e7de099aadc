"""How long the next frame of one connection may be. A client that is not known yet may send only
short frames, and so may a client that is authenticating anew."""

from __future__ import annotations

from collections.abc import Callable

from sharegroup.broker.network.api_table import check_length
from sharegroup.broker.network.sasl_session import SaslSession
from sharegroup.model.errors import MalformedMessage
from sharegroup.model.limits import FIRST_REQUEST_BYTES_MAX


class FrameLengths:
    """Args:
    longest: the most bytes of any frame.
    stranger_max: the most bytes of a frame of a client that is authenticating.
    sasl: the connection's SASL session; None without SASL.
    """

    def __init__(
        self, longest: int, stranger_max: Callable[[], int], sasl: SaslSession | None
    ) -> None:
        self._longest = longest
        self._stranger_max = stranger_max
        self._sasl = sasl
        self.answered = False
        """Whether a request has been answered; requests of SASL do not count."""

    def most(self) -> int:
        """The most bytes that the next frame may have, whatever its API."""
        if self._sasl is None or self._sasl.settled:
            return self._longest
        return min(self._longest, self._stranger_max())

    def check(self, key: int, version: int, length: int) -> None:
        """Refuse a long request as soon as it begins. A SASL token without a header has no API key
        or version: if one comes next, only the limit of :meth:`most` applies.

        Raises:
            MalformedMessage: it is too long.
        """
        if self._sasl is not None and self._sasl.wants_raw_token:
            return
        check_length(key, version, length)
        if not self.answered and length > FIRST_REQUEST_BYTES_MAX:
            raise MalformedMessage(
                f"a first request of {length} bytes; the limit is {FIRST_REQUEST_BYTES_MAX}"
            )
