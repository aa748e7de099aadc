"""ACLs by the resources that they are about, so that a question looks at few of many ACLs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias, TypeVar

from sharegroup.broker.authorization.acls import ANY, EVERYBODY, AclRule
from sharegroup.broker.authorization.resources import Resource, ResourceType

_Key = TypeVar("_Key")
_Pattern: TypeAlias = tuple[ResourceType, str, bool]
"""The resources that an ACL is about: type, name, whether the name is a prefix."""


class AclIndex:
    """A bag of ACLs: an ACL that was added twice is in it until it was removed twice.

    Adding and removing an ACL takes a few microseconds, however many the bag has.
    """

    def __init__(self, acls: Iterable[AclRule] = ()) -> None:
        self._by_pattern: dict[_Pattern, int] = {}
        self._by_holder: dict[tuple[_Pattern, str], dict[AclRule, int]] = {}
        self._by_type: dict[tuple[ResourceType, str], dict[AclRule, int]] = {}
        self._prefix_lengths: dict[ResourceType, dict[int, int]] = {}
        for acl in acls:
            self.add(acl)

    def add(self, acl: AclRule) -> None:
        """Add an ACL."""
        _, principal, _, _, (kind, name), prefixed = acl
        pattern = (kind, name, prefixed)
        if prefixed and pattern not in self._by_pattern:
            _more(self._prefix_lengths.setdefault(kind, {}), len(name))
        _more(self._by_pattern, pattern)
        _put(self._by_holder, (pattern, principal), acl)
        _put(self._by_type, (kind, principal), acl)

    def remove(self, acl: AclRule) -> None:
        """Remove an ACL that was added."""
        _, principal, _, _, (kind, name), prefixed = acl
        pattern = (kind, name, prefixed)
        _fewer(self._by_pattern, pattern)
        if (
            prefixed
            and pattern not in self._by_pattern
            and _fewer(self._prefix_lengths[kind], len(name))
        ):
            del self._prefix_lengths[kind]
        if _fewer(self._by_holder[pattern, principal], acl):
            del self._by_holder[pattern, principal]
        if _fewer(self._by_type[kind, principal], acl):
            del self._by_type[kind, principal]

    def about(self, principal: str, resource: Resource) -> Iterator[AclRule]:
        """The ACLs of the principal, or of everybody, that cover the resource."""
        for pattern in self._covering(resource):
            yield from self._by_holder.get((pattern, principal), ())
            if principal != EVERYBODY:
                yield from self._by_holder.get((pattern, EVERYBODY), ())

    def speaks_of(self, resource: Resource) -> bool:
        """Whether any ACL, whoever it is for, covers the resource."""
        return any(True for _ in self._covering(resource))

    def of_type(self, principal: str, resource_type: ResourceType) -> Iterator[AclRule]:
        """The ACLs of the principal, or of everybody, for resources of the type."""
        for who in {principal, EVERYBODY}:
            yield from self._by_type.get((resource_type, who), ())

    def _covering(self, resource: Resource) -> Iterator[_Pattern]:
        """Each pattern of an ACL that covers the resource."""
        kind, name = resource
        patterns: list[_Pattern] = [(kind, name, False)]
        if name != ANY:
            patterns.append((kind, ANY, False))
        lengths = self._prefix_lengths.get(kind, ())
        patterns += [(kind, name[:size], True) for size in lengths if size <= len(name)]
        return (pattern for pattern in patterns if pattern in self._by_pattern)


def _put(table: dict[_Key, dict[AclRule, int]], key: _Key, acl: AclRule) -> None:
    acls = table.get(key)
    if acls is None:
        table[key] = {acl: 1}
    else:
        _more(acls, acl)


def _more(counts: dict[_Key, int], key: _Key) -> None:
    counts[key] = counts.get(key, 0) + 1


def _fewer(counts: dict[_Key, int], key: _Key) -> bool:
    """Lower the count of ``key`` by one. Returns whether ``counts`` is empty now."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
    return not counts
