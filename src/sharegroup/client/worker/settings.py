"""The settings of a worker, checked before anything is connected."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sharegroup.client.core.record import Record
from sharegroup.client.core.setting_checks import check_positive
from sharegroup.client.worker.retry import Backoff, Reject
from sharegroup.model.errors import ConfigError

Handler = Callable[[Record[Any, Any]], Awaitable[object]]

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The arguments of ``ShareConsumer.run``, which explains them.

    Raises:
        ConfigError: an argument is invalid.
    """

    concurrency: int
    prefetch: int | None = None
    retry: Backoff | None = None
    dead_letter: str | None = None
    create_dead_letter: bool = False
    dead_letter_traceback: bool = False
    fatal: Sequence[type[Exception]] = ()
    timeout_s: float | None = None
    drain_s: float = 30.0
    cancel_when_lost: bool | None = None
    signals: Sequence[signal.Signals] = SIGNALS
    given_up_at_once: tuple[type[Exception], ...] = field(init=False)

    def __post_init__(self) -> None:
        check_positive("concurrency", self.concurrency)
        if self.prefetch is not None and self.prefetch < 0:
            raise ConfigError(f"prefetch is {self.prefetch}: it must be at least 0")
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise ConfigError(f"timeout_s is {self.timeout_s}: it must be more than 0")
        if self.drain_s < 0:
            raise ConfigError(f"drain_s is {self.drain_s}: it must be at least 0")
        if self.create_dead_letter and self.dead_letter is None:
            raise ConfigError("create_dead_letter needs dead_letter, the name of the topic")
        object.__setattr__(self, "given_up_at_once", (Reject, *self.fatal))

    def keeps_results(self, *, ordered: bool) -> bool:
        """Whether handlers go on when the locks are gone with the connection. With order per key
        they do not unless that is asked for: what ends late could undo a later record of the key,
        which another member has handled meanwhile.
        """
        return not (ordered if self.cancel_when_lost is None else self.cancel_when_lost)

    @property
    def ahead(self) -> int:
        """How many records may wait for a slot."""
        return self.concurrency if self.prefetch is None else self.prefetch
