"""What is known of a record, what holds in a group, and what is found."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple


class Phase(Enum):
    """What is known of a record."""

    FREE = "free"
    HELD = "held"
    UNSURE = "unsure"
    """An acknowledgement may or may not have had its effect."""
    DONE = "done"


class State(NamedTuple):
    """A record's state.

    Attributes:
        deliveries: the delivery count of the last delivery that was seen.
        member: who has got it last.
        asked_ms, known_ms: when that poll was made, and when it had returned.
        acks: the member's acknowledgements that have no answer yet, by the numbers of their calls.
        late: the same, of its earlier deliveries of the record: they may be about this one.
        left: it is not known since when the record is free, nor whether it is: the member has
            left, or a late answer may have been about this delivery.
        renewed: the member has renewed its lock: the next poll returns the record again.
        kills: how often the broker had been killed by then.
        done_ms: when it was known to be done.
        how: by which type.
    """

    phase: Phase = Phase.FREE
    deliveries: int = 0
    member: str | None = None
    asked_ms: float = 0
    known_ms: float = 0
    acks: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    left: bool = False
    renewed: bool = False
    kills: int = 0
    done_ms: float = 0
    how: str = ""

    @property
    def acking(self) -> bool:
        """Whether what is known may not hold any more."""
        return self.left or bool(self.acks or self.late)

    def answered(self, n: int) -> State:
        """The acknowledgement ``n`` has its answer."""
        if n not in self.acks and n not in self.late:
            return self
        return self._replace(
            acks=tuple(one for one in self.acks if one != n),
            late=tuple(one for one in self.late if one != n),
        )


class Settings(NamedTuple):
    """What holds in a group. None: not known, so nothing is said about it."""

    limit: int | None = None
    lock_ms: float | None = None
    locks: int | None = None
    ordering: str = "none"
    isolation: str = "read_uncommitted"
    letters: bool = False
    unseen: bool = False
    rests_ms: float = 0
    """The longest time that a record rests which has failed."""
    lowest_limit: int | None = None
    """The lowest ``limit`` that there was: a record may have been given up by it."""
    longest_ms: float = 0
    """The longest ``lock_ms`` that there was."""

    def weakest(self, event: dict[str, Any]) -> Settings:
        """With what an event sets. The moment at which it takes effect is not known, so that of an
        old and a new limit the one counts that allows more."""
        given = {name: event[name] for name in Settings._fields if name in event}
        new = self._replace(**given)
        lowest = [one for one in (self.lowest_limit, new.limit) if one is not None]
        new = new._replace(
            lowest_limit=min(lowest, default=None),
            longest_ms=max(self.longest_ms, new.lock_ms or 0),
            rests_ms=max(self.rests_ms, new.rests_ms),
        )
        if self.limit is not None and new.limit is not None:
            new = new._replace(limit=max(self.limit, new.limit))
        if self.lock_ms is not None and new.lock_ms is not None:
            new = new._replace(lock_ms=min(self.lock_ms, new.lock_ms))
        if self.locks is not None and new.locks is not None:
            new = new._replace(locks=max(self.locks, new.locks))
        return new


class Found(NamedTuple):
    """A rule that does not hold, for the offsets ``first`` … ``last``.

    Attributes:
        other: an earlier record of the key.
    """

    rule: str
    first: int
    last: int
    text: str
    other: int | None = None
