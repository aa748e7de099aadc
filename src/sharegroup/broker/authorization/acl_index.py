"""ACLs by what they are about, so that a question looks at few of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from sharegroup.broker.authorization.acls import ANY, EVERYBODY, Acl
from sharegroup.broker.authorization.resources import Resource, ResourceType

_Key = TypeVar("_Key")


class _Pattern(NamedTuple):
    """What an ACL is about."""

    type: ResourceType
    name: str
    prefixed: bool


class AclIndex:
    """A bag of ACLs: one that was added twice is there until it was removed twice.

    Adding and removing takes a few microseconds, however many there are.
    """

    def __init__(self, acls: Iterable[Acl] = ()) -> None:
        self._by_pattern: dict[_Pattern, dict[str, Counter[Acl]]] = {}
        self._by_type: dict[tuple[ResourceType, str], Counter[Acl]] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}
        for acl in acls:
            self.add(acl)

    def add(self, acl: Acl) -> None:
        """Add one."""
        pattern, kind = _pattern(acl), acl.resource.type
        if pattern not in self._by_pattern:
            self._by_pattern[pattern] = {}
            if acl.prefixed:
                lengths = self._prefix_lengths.setdefault(kind, Counter())
                lengths[len(acl.resource.name)] += 1
        self._by_pattern[pattern].setdefault(acl.principal, Counter())[acl] += 1
        self._by_type.setdefault((kind, acl.principal), Counter())[acl] += 1

    def remove(self, acl: Acl) -> None:
        """Remove one that was added."""
        pattern, kind = _pattern(acl), acl.resource.type
        principals = self._by_pattern[pattern]
        if _fewer(principals[acl.principal], acl):
            del principals[acl.principal]
        if not principals:
            del self._by_pattern[pattern]
            if acl.prefixed and _fewer(self._prefix_lengths[kind], len(acl.resource.name)):
                del self._prefix_lengths[kind]
        if _fewer(self._by_type[kind, acl.principal], acl):
            del self._by_type[kind, acl.principal]

    def about(self, principal: str, resource: Resource) -> Iterator[Acl]:
        """Those of the principal, or of everybody, that cover the resource."""
        for principals in self._covering(resource):
            yield from principals.get(principal, ())
            if principal != EVERYBODY:
                yield from principals.get(EVERYBODY, ())

    def speaks_of(self, resource: Resource) -> bool:
        """Whether any ACL, whoever it is for, covers the resource."""
        return any(True for _ in self._covering(resource))

    def of_type(self, principal: str, resource_type: ResourceType) -> Iterator[Acl]:
        """Those of the principal, or of everybody, for resources of the type."""
        for who in {principal, EVERYBODY}:
            yield from self._by_type.get((resource_type, who), ())

    def _covering(self, resource: Resource) -> Iterator[dict[str, Counter[Acl]]]:
        """The ACLs of each pattern that covers the resource, by principal."""
        kind, name = resource
        patterns = [_Pattern(kind, name, False)]
        if name != ANY:
            patterns.append(_Pattern(kind, ANY, False))
        lengths = self._prefix_lengths.get(kind, ())
        patterns += [_Pattern(kind, name[:size], True) for size in lengths if size <= len(name)]
        for pattern in patterns:
            found = self._by_pattern.get(pattern)
            if found is not None:
                yield found


def _pattern(acl: Acl) -> _Pattern:
    return _Pattern(acl.resource.type, acl.resource.name, acl.prefixed)


def _fewer(counts: Counter[_Key], key: _Key) -> bool:
    """Count one less; returns whether nothing is counted any more."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
    return not counts
