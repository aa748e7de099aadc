"""An entry for each client that a quota applies to, in bounded memory.

At most QUOTA_CLIENTS_MAX clients have an entry of their own. Further clients share one entry for
each quota, until there is room: somebody who invents ever new client ids gets one allowance for all
of them together, not one for each.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Generic, Protocol, TypeAlias, TypeVar

from sharegroup.model.limits import QUOTA_CLIENT_ID_CHARACTERS, QUOTA_CLIENTS_MAX
from sharegroup.quotas.entity import Entity
from sharegroup.quotas.precedence import Applied
from sharegroup.quotas.rate import RateWindow

Client: TypeAlias = tuple[Entity, str, str]


class ClientEntry(Protocol):
    """The entry of a client."""

    def is_idle(self, window: RateWindow, now_ms: int) -> bool:
        """Whether the entry is as good as a new one."""
        ...

    def check_invariants(self, window: RateWindow) -> None:
        """Raise AssertionError if the entry contradicts itself."""
        ...


K = TypeVar("K", bound=ClientEntry)


class ClientTable(Generic[K]):
    """Entries by quota and client.

    Args:
        new: makes an entry.
    """

    def __init__(self, window: RateWindow, new: Callable[[], K]) -> None:
        self._window = window
        self._new = new
        self._own: dict[Client, K] = {}  # the entry that was used last is last
        self._shared: dict[Entity, K] = {}

    def __len__(self) -> int:
        """Clients with an entry of their own."""
        return len(self._own)

    def keep_only(self, entities: Container[Entity]) -> None:
        """Drop the entries of quotas of other entities."""
        self._own = {key: kept for key, kept in self._own.items() if key[0] in entities}
        self._shared = {key: kept for key, kept in self._shared.items() if key in entities}

    def look(self, applied: Applied, user: str, client_id: str) -> K:
        """The client's entry; if it has no entry, a new one, which is not kept."""
        kept = self._own.get(_key(applied, user, client_id))
        if kept is None and len(self._own) >= QUOTA_CLIENTS_MAX:
            kept = self._shared.get(applied.entity)
        return self._new() if kept is None else kept

    def use(self, applied: Applied, user: str, client_id: str, now_ms: int) -> K:
        """The client's entry, which is made if the client has no entry."""
        key = _key(applied, user, client_id)
        kept = self._own.pop(key, None)
        if kept is None:
            self.forget_idle(now_ms)
            if len(self._own) >= QUOTA_CLIENTS_MAX:
                shared = self._shared.get(applied.entity)
                if shared is None:
                    shared = self._shared[applied.entity] = self._new()
                return shared
            kept = self._new()
        self._own[key] = kept
        return kept

    def forget_idle(self, now_ms: int) -> None:
        """Drop the entries of clients that did nothing of late."""
        while self._own:
            key, kept = next(iter(self._own.items()))
            if not kept.is_idle(self._window, now_ms):
                return
            del self._own[key]

    def check_invariants(self) -> None:
        """Raise AssertionError if there are too many entries, or an entry contradicts itself."""
        assert len(self._own) <= QUOTA_CLIENTS_MAX
        for kept in (*self._own.values(), *self._shared.values()):
            kept.check_invariants(self._window)
        for _, user, client_id in self._own:
            assert len(client_id) <= QUOTA_CLIENT_ID_CHARACTERS, (user, client_id)


def _key(applied: Applied, user: str, client_id: str) -> Client:
    return (
        applied.entity,
        user if applied.by_user else "",
        client_id[:QUOTA_CLIENT_ID_CHARACTERS] if applied.by_client_id else "",
    )
