"""Which quotas a request to describe them asks for (KIP-546; Kafka class ClientQuotasImage)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from sharegroup.model.errors import InvalidRequest, UnsupportedVersion
from sharegroup.quotas.entity import CLIENT_ID, IP, USER, Entity

EXACT, DEFAULT, ANY = range(3)
"""Match types: the entity of this name; the default entity; any entity of the type."""


class Component(NamedTuple):
    """What an entity must have as its part of the type ``kind``."""

    kind: str
    match_type: int
    match: str | None


class Selection:
    """A filter of entities. An entity matches if every component does. If ``strict``, an entity
    with further types does not match. Without components every entity matches, or, if ``strict``,
    no entity.

    Raises:
        InvalidRequest, UnsupportedVersion: the filter is not valid.
    """

    def __init__(self, components: Iterable[Component], *, strict: bool) -> None:
        self._wanted: dict[str, Component] = {}
        self._strict = strict
        for component in components:
            kind = component.kind
            if not kind:
                raise InvalidRequest("Invalid empty entity type.")
            if kind in self._wanted:
                raise InvalidRequest(
                    f"Entity type {kind} cannot appear more than once in the filter."
                )
            if kind not in (USER, CLIENT_ID, IP):
                raise UnsupportedVersion(f"Unsupported entity type {kind}")
            _check_match(component)
            self._wanted[kind] = component
        if IP in self._wanted and len(self._wanted) > 1:
            raise InvalidRequest(
                "Invalid entity filter component combination. IP filter component should not be "
                "used with user or clientId filter component."
            )

    def select(
        self, quotas: Mapping[tuple[Entity, str], float]
    ) -> dict[Entity, list[tuple[str, float]]]:
        """The entities that match, with the names and values of their quotas."""
        found: dict[Entity, list[tuple[str, float]]] = {}
        for (entity, key), value in quotas.items():
            if self.matches(entity):
                found.setdefault(entity, []).append((key, value))
        return found

    def matches(self, entity: Entity) -> bool:
        """Whether the filter matches."""
        of = dict(entity)
        if self._strict and of.keys() != self._wanted.keys():
            return False
        return all(
            kind in of and (wanted.match_type == ANY or of[kind] == wanted.match)
            for kind, wanted in self._wanted.items()
        )


def _check_match(component: Component) -> None:
    match component.match_type:
        case 0:
            if component.match is None:
                raise InvalidRequest(
                    "Request specified MATCH_TYPE_EXACT, but set match string to null."
                )
        case 1 | 2:
            if component.match is not None:
                name = "DEFAULT" if component.match_type == DEFAULT else "SPECIFIED"
                raise InvalidRequest(
                    f"Request specified MATCH_TYPE_{name}, but also specified a match string."
                )
        case _:
            raise InvalidRequest(f"Unknown match type {component.match_type}")
