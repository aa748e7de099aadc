"""Which quota applies to a client (Kafka class ClientQuotaManager, DefaultQuotaCallback).

The most specific quota applies, in this order: user and client id; user, any client id; user; any
user, client id; any user, any client id; any user; client id; any client id. Other quotas of the
user or the client id do not count.

An empty client id is under the quotas of any client id. (In Kafka it is under no such quota, which
lets a client escape by giving no id.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from sharegroup.quotas.entity import CLIENT_ID, USER, Entity

_NAMED: Final = "named"
_ANY: Final = "any"
_NOT: Final = "not"

_Level: TypeAlias = tuple[str, str]
"""How a quota names the user and the client id."""

_ORDER: Final[tuple[_Level, ...]] = (
    (_NAMED, _NAMED),
    (_NAMED, _ANY),
    (_NAMED, _NOT),
    (_ANY, _NAMED),
    (_ANY, _ANY),
    (_ANY, _NOT),
    (_NOT, _NAMED),
    (_NOT, _ANY),
)


class Applied(NamedTuple):
    """A quota that applies to a client."""

    entity: Entity
    value: float
    by_user: bool
    """Whether each user has this much; else all users together."""
    by_client_id: bool
    """Whether each client id has this much."""


class Precedence:
    """The quotas of one name, such as ``producer_byte_rate``, found by user and client id."""

    def __init__(self, quotas: Mapping[Entity, float]) -> None:
        levels: dict[_Level, dict[tuple[str, str], Applied]] = {}
        for entity, value in quotas.items():
            of = dict(entity)
            level = (_level(of, USER), _level(of, CLIENT_ID))
            applied = Applied(entity, value, level[0] != _NOT, level[1] != _NOT)
            names = (of.get(USER) or "", of.get(CLIENT_ID) or "")
            levels.setdefault(level, {})[names] = applied
        self._levels = tuple(
            (level[0] == _NAMED, level[1] == _NAMED, levels[level])
            for level in _ORDER
            if level in levels
        )

    def __bool__(self) -> bool:
        """Whether there is any quota."""
        return bool(self._levels)

    def find(self, user: str, client_id: str) -> Applied | None:
        """The quota that applies; None: no quota."""
        for user_named, client_named, quotas in self._levels:
            names = (user if user_named else "", client_id if client_named else "")
            found = quotas.get(names)
            if found is not None:
                return found
        return None


def _level(of: Mapping[str, str | None], kind: str) -> str:
    if kind not in of:
        return _NOT
    return _ANY if of[kind] is None else _NAMED
