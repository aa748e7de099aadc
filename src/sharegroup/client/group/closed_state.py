"""Whether a consumer is closed: all its parts ask it."""

from __future__ import annotations

import asyncio

from sharegroup.client.errors import IllegalState


class ClosedState:
    """See the module.

    Attributes:
        closing: the task that closes the consumer; None: it is not closed.
    """

    def __init__(self) -> None:
        self.closing: asyncio.Task[None] | None = None

    @property
    def closed(self) -> bool:
        """The consumer has been closed, or is being closed."""
        return self.closing is not None

    def check_usable(self) -> None:
        """Raises IllegalState: the consumer is closed."""
        if self.closing is not None:
            raise IllegalState("the consumer is closed")
