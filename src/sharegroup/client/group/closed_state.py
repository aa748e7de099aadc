"""Whether a consumer is closed: all its parts ask it."""

from __future__ import annotations

import asyncio

from sharegroup.client.errors import IllegalState


class ClosedState:
    """See the module.

    Attributes:
        closing: the task that closes the consumer; None: it is not closed.
        giving_up: this task has not given up all partitions yet: their offsets may be committed.
    """

    def __init__(self) -> None:
        self.closing: asyncio.Task[None] | None = None
        self.giving_up = False

    @property
    def closed(self) -> bool:
        """The consumer has been closed, or is being closed."""
        return self.closing is not None

    def check_open(self) -> None:
        """Raises IllegalState: the consumer is closed, or is being closed."""
        if self.closing is not None:
            raise IllegalState("the consumer is closed")

    def check_usable(self) -> None:
        """Raises IllegalState: the consumer is closed, and has given up its partitions. Until then
        ``on_revoked`` may commit."""
        if not self.giving_up:
            self.check_open()
