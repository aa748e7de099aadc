"""For who asks the same thing again and again: an answer with the same bytes is not decoded."""

from __future__ import annotations


class KnownAnswer:
    """The bytes of an answer that was taken in."""

    def __init__(self) -> None:
        self._known: bytes | None = None
        self._latest: bytes | None = None

    def attempt(self) -> KnownAnswer:
        """For one of several requests of which the first answer counts."""
        own = KnownAnswer()
        own._known = self._known
        return own

    def answered(self, attempt: KnownAnswer) -> None:
        """The answer to this attempt counts: it is the latest."""
        self._latest = attempt._latest

    def came(self, body: bytes) -> bool:
        """An answer has come: whether it is the known one."""
        self._latest = body
        return body == self._known

    def keep(self) -> None:
        """The latest answer was taken in: from now on it is known."""
        self._known = self._latest

    def forget(self) -> None:
        """The next answer is to be decoded, whatever it is."""
        self._known = None
